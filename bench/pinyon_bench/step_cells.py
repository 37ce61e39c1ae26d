"""Verifies and times rows of steps, one contestant and row at a time, and checks the contestant against the servers."""

from __future__ import annotations

from functools import partial

from . import playing
from .checks import Counts, stored_wrongly
from .contestant import Contestant, ContestantError
from .results import Measured, Sample
from .servers import Server
from .step_rows import StepRow

VERIFY_SECONDS = 20.0
LONGEST_CELL_SECONDS = 20.0
TRIAL_SECONDS = 0.005
VERIFY_OPERATIONS = 100
MOST_VERIFY_ITERATIONS = 20


class StepCells:
    """The cells of rows of steps: full counts for the seed's rows, about `cell_seconds` per cell for the others."""

    def __init__(self, servers: list[Server], seed_iterations: int, cell_seconds: float) -> None:
        self._servers = servers
        self._seed_iterations = seed_iterations
        self._cell_seconds = cell_seconds
        self._iterations: dict[tuple[str, str], int] = {}

    def verify(self, contestant: Contestant, row: StepRow) -> None:
        """Chooses the cell's iterations. Raises ContestantError if a reply is wrong, or the row takes far too long."""
        few = max(3, min(MOST_VERIFY_ITERATIONS, VERIFY_OPERATIONS // row.operations))
        spec = row.spec(server_names(row, self._servers), few)
        self._flush()
        playing.verify(partial(contestant.ask, seconds=VERIFY_SECONDS), spec)
        wrong = stored_wrongly(spec, self._servers)
        if wrong:
            raise ContestantError(wrong)
        self._choose_iterations(contestant, row, few)

    def _choose_iterations(self, contestant: Contestant, row: StepRow, few: int) -> None:
        """Finds by trial how many iterations fill a cell."""
        seconds = self._cell(contestant, row, few).wall
        while seconds < TRIAL_SECONDS:
            few *= 4
            seconds = self._cell(contestant, row, few).wall
        per_iteration = seconds / few
        fitting = max(3, round(self._cell_seconds / per_iteration))
        iterations = self._seed_iterations if row.of_seed else fitting
        expected = iterations * per_iteration
        if expected > LONGEST_CELL_SECONDS:
            each = f"{per_iteration * 1e3:.0f} ms per iteration"
            raise ContestantError(f"not timed: {each} would be {expected:.0f} s a round")
        self._iterations[row.name, contestant.entry.name] = iterations

    def time(self, contestant: Contestant, row: StepRow, number: int) -> Measured:
        """Returns a timed cell. Raises ContestantError if it failed, or if the servers counted something else."""
        return Measured(self._cell(contestant, row, self._iterations[row.name, contestant.entry.name], number))

    def _cell(self, contestant: Contestant, row: StepRow, iterations: int, number: int = 0) -> Sample:
        spec = row.spec(server_names(row, self._servers), iterations)
        self._flush()
        before = Counts.taken(self._servers)
        reply = playing.time(contestant.ask, spec)
        wrong = Counts.taken(self._servers).minus(before).differ_from(spec)
        if wrong:
            raise ContestantError(wrong)
        operations = iterations * row.operations
        return Sample(
            number, row.name, contestant.entry.name, operations, reply["wall"], reply["user"], reply["system"]
        )

    def _flush(self) -> None:
        for server in self._servers:
            server.flush()


def server_names(row: StepRow, servers: list[Server]) -> list[str]:
    """Returns the servers as the row's clients get them; Dalli's rows know one process under two names."""
    if row.of_seed:
        return [servers[0].name, f"localhost:{servers[0].port}"]
    return [server.name for server in servers[: row.servers]]
