"""Runs the rows: verifies each contestant on each, then times them interleaved, round by round (A B C, then C B A)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .checks import Counts, stored_wrongly
from .contestant import Contestant, ContestantError, Entry
from .results import ContestantInfo, Document, Gap, Sample
from .rows import Row
from .servers import Server

VERIFY_SECONDS = 20.0
LONGEST_CELL_SECONDS = 20.0
TRIAL_SECONDS = 0.005
VERIFY_OPERATIONS = 100
MOST_VERIFY_ITERATIONS = 20


@dataclass(frozen=True)
class Plan:
    """What to run: full counts for the seed's rows, about `cell_seconds` for each cell of the others."""

    rows: list[Row]
    entries: list[Entry]
    rounds: int
    seed_iterations: int
    cell_seconds: float

    def cells(self) -> int:
        """Returns how many cells are verified and timed in all, for a progress bar."""
        per_round = sum(row.group in entry.groups for row in self.rows for entry in self.entries)
        return per_round * (self.rounds + 1)


class Runner:
    """Carries a plan out on running servers and adds what was measured to a document that lists the contestants."""

    def __init__(
        self,
        plan: Plan,
        servers: list[Server],
        cores: set[int] | None,
        document: Document,
        advance: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._servers = servers
        self._document = document
        self._advance = advance
        self._contestants = [Contestant(entry, cores) for entry in plan.entries]
        self._iterations: dict[tuple[str, str], int] = {}

    def run(self) -> None:
        """Runs everything; ends the contestants' processes whatever happens."""
        try:
            self._each_cell(0, self._verify)
            for number in range(1, self._plan.rounds + 1):
                self._each_cell(number, self._time)
        finally:
            for contestant in self._contestants:
                contestant.close()

    def _each_cell(self, number: int, work: Callable[[Contestant, Row, int], None]) -> None:
        order = self._contestants[::-1] if number and number % 2 == 0 else self._contestants
        absent = {info.name for info in self._document.contestants if info.absent}
        for row in self._plan.rows:
            for contestant in order:
                name = contestant.entry.name
                if row.group not in contestant.entry.groups:
                    continue
                self._advance(f"{'verify' if number == 0 else f'round {number}'}  {row.name}  {name}")
                if name in absent or self._document.gap(row.name, name):
                    continue
                try:
                    work(contestant, row, number)
                except ContestantError as error:
                    self._give_up(row, name, str(error))

    def _verify(self, contestant: Contestant, row: Row, _: int) -> None:
        name = contestant.entry.name
        few = max(3, min(MOST_VERIFY_ITERATIONS, VERIFY_OPERATIONS // row.operations))
        spec = row.spec(self._names(row), few)
        self._flush()
        reply = contestant.ask({"do": "verify", "row": spec}, VERIFY_SECONDS)
        if not reply["ok"]:
            self._give_up(row, name, reply["reason"], bool(reply.get("cannot")))
            return
        wrong = stored_wrongly(spec, self._servers)
        if wrong:
            self._give_up(row, name, wrong)
            return
        self._choose_iterations(contestant, row, few)

    def _choose_iterations(self, contestant: Contestant, row: Row, few: int) -> None:
        """Finds by trials how many iterations fill a cell; gives up on a row that would take far too long."""
        seconds = self._cell(contestant, row, few).wall
        while seconds < TRIAL_SECONDS:
            few *= 4
            seconds = self._cell(contestant, row, few).wall
        per_iteration = seconds / few
        fitting = max(3, round(self._plan.cell_seconds / per_iteration))
        iterations = self._plan.seed_iterations if row.group == "seed" else fitting
        expected = iterations * per_iteration
        if expected > LONGEST_CELL_SECONDS:
            reason = f"not timed: {per_iteration * 1e3:.0f} ms per iteration would be {expected:.0f} s a round"
            self._give_up(row, contestant.entry.name, reason)
            return
        self._iterations[row.name, contestant.entry.name] = iterations

    def _time(self, contestant: Contestant, row: Row, number: int) -> None:
        iterations = self._iterations[row.name, contestant.entry.name]
        self._document.samples.append(self._cell(contestant, row, iterations, number))

    def _cell(self, contestant: Contestant, row: Row, iterations: int, number: int = 0) -> Sample:
        """Returns one timed cell; raises ContestantError when it failed or the servers counted something else."""
        spec = row.spec(self._names(row), iterations)
        self._flush()
        before = Counts.taken(self._servers)
        reply = contestant.ask({"do": "time", "row": spec})
        if not reply["ok"]:
            raise ContestantError(reply["reason"])
        wrong = Counts.taken(self._servers).minus(before).differ_from(spec)
        if wrong:
            raise ContestantError(wrong)
        operations = iterations * row.operations
        return Sample(
            number, row.name, contestant.entry.name, operations, reply["wall"], reply["user"], reply["system"]
        )

    def _names(self, row: Row) -> list[str]:
        return server_names(row, self._servers)

    def _flush(self) -> None:
        for server in self._servers:
            server.flush()

    def _give_up(self, row: Row, name: str, reason: str, cannot: bool = False) -> None:
        self._document.gaps.append(Gap(row.name, name, reason, cannot))


def server_names(row: Row, servers: list[Server]) -> list[str]:
    """Returns the servers as the row's clients get them: the seed's rows know one process under two names."""
    if row.group == "seed":
        return [servers[0].name, f"localhost:{servers[0].port}"]
    return [server.name for server in servers[: row.servers]]


def describe(contestant: Contestant) -> ContestantInfo:
    """Asks a contestant for its version and configuration; one that cannot run is absent, with the reason."""
    name = contestant.entry.name
    try:
        reply = contestant.ask({"do": "describe"})
    except ContestantError as error:
        return ContestantInfo(name, absent=str(error))
    if not reply["ok"]:
        contestant.close()
        return ContestantInfo(name, absent=reply["reason"])
    return ContestantInfo(name, reply["version"], reply["configuration"])
