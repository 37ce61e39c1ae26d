"""Shows a run while it goes on, and keeps what was shown. Colours and a row that moves need the package ``rich``."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pinyon.cli.terminal import console, say

from .record import Chart, Line, Scene

if TYPE_CHECKING:
    from rich.text import Text

#: What a caller is at: a letter for a pipe, a style for a terminal, and the words of the legend.
STATES = {
    "asks": (".", "dim", "still waits"),
    "made": ("M", "bold yellow", "asked the database"),
    "waited": ("w", "cyan", "waited for the value of another caller"),
    "late": ("-", "dim", "began when the value was there"),
    "old": ("o", "green", "got the old value at once"),
}


class Screen:
    """The terminal, or plain lines in a pipe."""

    def __init__(self) -> None:
        self.scenes: list[Scene] = []

    def scene(self, title: str, story: str) -> Scene:
        """Begin a scene."""
        say("")
        say(f"{len(self.scenes) + 1}. {title}", "bold")
        say(f"   {story}", "dim")
        self.scenes.append(Scene(title, story))
        return self.scenes[-1]

    def chart(self, title: str, begin: float) -> Chart:
        """Begin a part of the scene. Returns the chart that the part fills."""
        say("")
        say(f"   {title}", "underline")
        chart = Chart(title, begin)
        self.scenes[-1].charts.append(chart)
        return chart

    def tell(self, text: str) -> None:
        """Show something that happened in this part of the scene."""
        self._show(Line(text))

    def find(self, text: str) -> None:
        """Show what was measured."""
        self._show(Line(text, is_finding=True))

    def _show(self, line: Line) -> None:
        say(f"   {'=> ' if line.is_finding else ''}{line.text}", "bold green" if line.is_finding else "")
        self.scenes[-1].charts[-1].lines.append(line)

    @contextlib.contextmanager
    def callers(self, states: Sequence[str]) -> Iterator[Row]:
        """Show one letter for each caller, which changes while the block runs."""
        row = Row(states)
        terminal = console()
        if terminal is None:
            yield row
            say("   " + "".join(STATES[state][0] for state in states))
        else:
            from rich.live import Live

            with Live(row, console=terminal, refresh_per_second=20):
                yield row
        counted = Counter(states)
        legend = (f"{STATES[state][0]} {STATES[state][2]}: {counted[state]}" for state in STATES if counted[state])
        say("   " + ", ".join(legend), "dim")


class Row:
    """The callers' states. ``rich`` asks for it again and again."""

    def __init__(self, states: Sequence[str]) -> None:
        self._states = states

    def __rich__(self) -> Text:
        """Return the row as it is now."""
        from rich.text import Text

        return Text.assemble("   ", *((STATES[state][0], STATES[state][1]) for state in self._states))
