"""Verifies and times rows of hot keys, and checks how many of the gets reached the server."""

from __future__ import annotations

from functools import partial

from .. import playing
from ..checks import Counts
from ..contestant import Contestant, ContestantError
from ..coroutines.cells import VERIFY_SECONDS, prepare
from ..names import keeps_hot_keys
from ..protocol import PairsSpec
from ..results import Measured, Sample
from ..servers import Server
from .rows import DRAWS, HotRow

VERIFY_KEYS = 1_000
TRIAL_DRAWS = 10_000
#: As long as values stay fresh. In a shorter cell, too large a part of the gets would be the first of their keys.
CELL_SECONDS = 1.0


class HotCells:
    """The cells of rows of hot keys, on the first server."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers
        #: How many draws fill a contestant's cell, by contestant and row.
        self._draws: dict[tuple[str, str], int] = {}

    def verify(self, contestant: Contestant, row: HotRow) -> None:
        """Raises ContestantError if a value is wrong, read from the server or from memory. Chooses the cell's draws."""
        spec = row.spec(self._servers[0].name, VERIFY_KEYS)
        prepare(spec, self._servers[0])
        for _ in range(2):
            playing.verify(partial(contestant.ask, seconds=VERIFY_SECONDS), spec)
        self._draws[contestant.entry.name, row.name] = self._fitting(contestant, row)

    def _fitting(self, contestant: Contestant, row: HotRow) -> int:
        """Finds by trial how many draws fill a cell. The more draws, the larger the part that memory answers."""
        count = TRIAL_DRAWS
        seconds = self._cell(contestant, row, 0, count).wall
        while seconds < CELL_SECONDS / 4 and count < DRAWS:
            count = min(4 * count, DRAWS)
            seconds = self._cell(contestant, row, 0, count).wall
        return max(1, min(round(count * CELL_SECONDS / seconds), DRAWS))

    def time(self, contestant: Contestant, row: HotRow, number: int) -> Measured:
        """Returns a timed cell. Raises ContestantError if it failed, or if the server counted something else."""
        return Measured(self._cell(contestant, row, number, self._draws[contestant.entry.name, row.name]))

    def _cell(self, contestant: Contestant, row: HotRow, number: int, count: int) -> Sample:
        spec = row.drawn(self._servers[0].name, count)
        prepare(spec, self._servers[0])
        before = Counts.taken(self._servers[:1])
        reply = playing.time(contestant.ask, spec)
        name = contestant.entry.name
        wrong = wrongly_counted(Counts.taken(self._servers[:1]).minus(before), spec, keeps_hot_keys(name))
        if wrong:
            raise ContestantError(wrong)
        return Sample(number, row.name, name, count, reply["wall"], reply["user"], reply["system"])


def wrongly_counted(counted: Counts, spec: PairsSpec, keeps: bool) -> str:
    """Returns in words how the server's counts differ from what the row asks for; empty if they do not.

    A client that `keeps` hot keys asks for less than half of what it reads, any other for each draw.
    """
    asked = spec["warmup"] + len(spec["draws"])
    wanted, spare = (0, asked // 2) if keeps else (asked, 0)
    return counted.difference(Counts(wanted, 0, 0, 0), spare_gets=spare)
