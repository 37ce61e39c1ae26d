"""The progress of a stress run: a bar on a terminal, and a line for each completed process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pinyon.cli.terminal import console_for, say

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pinyon.cli.stress.plan import Plan
    from pinyon.cli.stress.results import Results

#: Seconds between two updates of the bar.
PATIENCE = 0.1


class Bar:
    """Shows how many keys are done or given up, or how much time has passed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._began = time.monotonic()
        self._shown = 0.0
        self._progress: Any = None

    def __enter__(self) -> Self:
        terminal = console_for("a progress bar")
        if terminal is not None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            text = TextColumn("{task.fields[ok]} ok, {task.fields[failures]} failures", style="dim")
            self._progress = Progress(
                TextColumn("{task.percentage:>3.0f} %"),
                BarColumn(),
                TimeElapsedColumn(),
                text,
                console=terminal,
                transient=True,
            )
            self._task = self._progress.add_task("", total=1.0, ok=0, failures=0)
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, results: Results) -> None:
        """Show the current progress."""
        now = time.monotonic()
        if self._progress is None or now - self._shown < PATIENCE:
            return
        self._shown = now
        if self._plan.seconds is None:
            done = (len(results.sections) + results.given_up) / (self._plan.workers * self._plan.keys)
        else:
            done = min(1.0, (now - self._began) / self._plan.seconds)
        self._progress.update(self._task, completed=done, ok=len(results.sections), failures=results.failures)

    def tell(self, line: str) -> None:
        """Print a line above the bar."""
        say(line)
