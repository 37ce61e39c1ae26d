"""The processes of a stress run: forks them, reads their events, and always ends them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from typing import TYPE_CHECKING

from pinyon.cli.stress import worker
from pinyon.cli.stress.plan import Broken, Complete, Event, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess
    from types import TracebackType

    from typing_extensions import Self

#: Seconds that a process has to end after SIGTERM.
_LAST_WORDS = 5.0


class Processes:
    """Forks the processes on entry, and ends them on exit."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._running: dict[Connection, ForkProcess] = {}

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("fork")
        try:
            for _ in range(self._plan.forks):
                hears, tells = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(self._plan, tells), daemon=True)
                process.start()
                tells.close()
                self._running[hears] = process
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def events(self, patience: float) -> Iterator[Event | None]:
        """Yield the processes' events until all have ended, and None after ``patience`` seconds without an event."""
        complete: set[Connection] = set()
        while self._running:
            heard = multiprocessing.connection.wait(list(self._running), patience)
            if not heard:
                yield None
            for hears in [each for each in self._running if each in heard]:
                try:
                    event: Event = hears.recv()
                except (EOFError, OSError):
                    process = self._running.pop(hears)
                    process.join()
                    if hears not in complete:
                        yield Broken(process.pid or 0, f"it ended with {process.exitcode}")
                    continue
                if isinstance(event, (Complete, Broken)):
                    complete.add(hears)
                yield event

    def _end(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.join(_LAST_WORDS)
            if process.is_alive():
                process.kill()
                process.join()
        self._running.clear()


def _work(plan: Plan, tells: Connection) -> None:
    """Run one of the processes."""
    # A terminal sends Ctrl-C to all its processes. The first process ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    one_by_one = threading.Lock()

    def report(event: Event) -> None:
        with one_by_one:
            tells.send(event)

    try:
        workers = worker.run(plan, report)
    except worker.Stop:
        return
    except Exception as error:
        report(Broken(os.getpid(), f"{type(error).__name__}: {error}"))
    else:
        report(Complete(os.getpid(), sum(each.ok for each in workers), sum(each.failures for each in workers)))
