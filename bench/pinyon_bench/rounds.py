"""Runs the rows: verifies each contestant, then times them in interleaved rounds (A B C, then C B A)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .contestant import Contestant, ContestantError, Entry
from .coroutines.cells import PairsCells
from .coroutines.rows import PairsRow
from .declaration import Row
from .hot.cells import HotCells
from .hot.rows import HotRow
from .locks.cells import LocksCells
from .locks.rows import LocksRow
from .locks.server import LockServer
from .results import ContestantInfo, Document, Gap
from .servers import Server
from .step_cells import StepCells
from .step_rows import StepRow

NO_LOCK_SERVER = "there is no redis-server"


@dataclass(frozen=True)
class Plan:
    """What to run: full counts for the seed's rows, about `cell_seconds` per cell for the other rows of steps."""

    rows: list[Row]
    entries: list[Entry]
    rounds: int
    seed_iterations: int
    cell_seconds: float

    def cells(self) -> int:
        """Returns the number of cells to verify and time, for a progress bar."""
        return sum(entry.takes_part(row) * (1 + row.rounds(self.rounds)) for row in self.rows for entry in self.entries)

    def needs_slow_link(self) -> bool:
        """Returns whether a row needs the slow link."""
        return any(isinstance(row, PairsRow) and row.link == "slow" for row in self.rows)

    def needs_lock_server(self) -> bool:
        """Returns whether a row needs a Redis server."""
        return any(isinstance(row, LocksRow) for row in self.rows)


class Runner:
    """Carries out a plan on running servers, and adds the measurements to a document that lists the contestants."""

    def __init__(
        self,
        plan: Plan,
        servers: list[Server],
        slow: str | None,
        lock_server: LockServer | None,
        cores: set[int] | None,
        document: Document,
        advance: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._document = document
        self._advance = advance
        self._contestants = [Contestant(entry, cores) for entry in plan.entries]
        #: The objects that verify and time cells, by kind of row.
        self._cells: dict[type[Row], Any] = {
            StepRow: StepCells(servers, plan.seed_iterations, plan.cell_seconds),
            PairsRow: PairsCells(servers, slow),
            HotRow: HotCells(servers),
            LocksRow: LocksCells(lock_server, NO_LOCK_SERVER, cores, plan.cell_seconds),
        }

    def run(self) -> None:
        """Runs everything; always ends the contestants' processes."""
        try:
            for number in range(self._plan.rounds + 1):
                self._round(number)
        finally:
            self._cells[LocksRow].close()
            for contestant in self._contestants:
                contestant.close()

    def _round(self, number: int) -> None:
        """Verifies in round 0, and times in later rounds."""
        order = self._contestants[::-1] if number and number % 2 == 0 else self._contestants
        absent = {info.name for info in self._document.contestants if info.absent}
        for row in self._plan.rows:
            if number > row.rounds(self._plan.rounds):
                continue
            for contestant in order:
                name = contestant.entry.name
                if not contestant.entry.takes_part(row):
                    continue
                self._advance(f"{f'round {number}' if number else 'verify'}  {row.name}  {name}")
                if name in absent or self._document.gap(row.name, name):
                    continue
                try:
                    self._cell(contestant, row, number)
                except ContestantError as error:
                    self._document.gaps.append(Gap(row.name, name, str(error), error.cannot))

    def _cell(self, contestant: Contestant, row: Row, number: int) -> None:
        cells = self._cells[type(row)]
        if not number:
            cells.verify(contestant, row)
            return
        measured = cells.time(contestant, row, number)
        self._document.samples.append(measured.sample)
        if measured.work:
            self._document.server_work.append(measured.work)
        if measured.handovers:
            self._document.handovers.append(measured.handovers)


def describe(contestant: Contestant) -> ContestantInfo:
    """Asks a contestant for its version and configuration. If it cannot run, it is absent, with the reason."""
    name = contestant.entry.name
    try:
        reply = contestant.ask({"do": "describe"})
    except ContestantError as error:
        return ContestantInfo(name, absent=str(error))
    if not reply["ok"]:
        contestant.close()
        return ContestantInfo(name, absent=reply["reason"])
    return ContestantInfo(name, reply["version"], reply["configuration"])
