"""Hand-overs between processes: when each held the lock, merged from all their replies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from pinyon.cli.stress.checks import overlapping

from ..contestant import Contestant, ContestantError, Entry, answered
from ..protocol import LocksSpec

START_SECONDS = 0.1
NANOSECONDS = 1e9


@dataclass(frozen=True)
class Held:
    """One hold of the lock by a process: when it asked, when it acquired, and when it began to release."""

    process: int
    asked: int
    entered: int
    leaving: int


class Processes:
    """One process per worker of a row. The first request starts them."""

    def __init__(self, entry: Entry, cores: set[int] | None, count: int) -> None:
        self._contestants = [Contestant(entry, cores) for _ in range(count)]

    def ask(self, row: LocksSpec, seconds: float) -> list[dict[str, Any]]:
        """Returns the reply of every process to a request that all do at the same time. Raises ContestantError."""
        try:
            # All processes must have started before any of them begins.
            self._ask_all({"do": "describe"}, seconds)
            starting = {**row, "check": False, "start": time.monotonic() + START_SECONDS}
            return self._ask_all({"do": "play", "row": starting}, seconds)
        except ContestantError:
            self.close()
            raise

    def _ask_all(self, request: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
        for contestant in self._contestants:
            contestant.send(request)
        return [answered(contestant.receive(seconds)) for contestant in self._contestants]

    def close(self) -> None:
        """Ends the processes, all at the same time."""
        for contestant in self._contestants:
            contestant.hang_up()
        for contestant in self._contestants:
            contestant.close()


def held_by_all(replies: list[dict[str, Any]]) -> list[Held]:
    """Returns all holds in order; raises ContestantError when two overlap."""
    found = [Held(number, *times) for number, reply in enumerate(replies) for times in reply["held"]]
    found.sort(key=lambda held: held.entered)
    if next(overlapping(found, attrgetter("entered"), attrgetter("leaving")), None):
        raise ContestantError("two processes held the lock at once")
    return found


def handover_seconds(found: list[Held]) -> Iterator[float]:
    """Yields the duration of each hand-over, from a release to the next holder, if that is another process that was
    waiting.
    """
    for earlier, later in zip(found, found[1:]):
        if later.process != earlier.process and later.asked < earlier.leaving:
            yield (later.entered - earlier.leaving) / NANOSECONDS
