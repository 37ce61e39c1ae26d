"""Verifies and times rows of pairs, one contestant and row at a time, and checks the contestant against the servers."""

from __future__ import annotations

import math
from functools import partial

from .. import playing
from ..checks import Counts, held_wrongly
from ..contestant import Contestant, ContestantError
from ..protocol import PairsSpec, value_of
from ..results import Latency, Measured, Sample
from ..servers import Server
from .rows import NEAR, PAIRS, PairsRow

VERIFY_SECONDS = 30.0
VERIFY_PAIRS = 300
#: A cell of `run` repeats its few pairs until it has lasted so long, or has as many operations as the seed's. In a
#: shorter cell, starting the coroutines would be a good part of the time.
LEAST_SECONDS = 0.05


class PairsCells:
    """The cells of rows of pairs, on the first server; `slow` is its address over the slow link."""

    def __init__(self, servers: list[Server], slow: str | None) -> None:
        self._servers = servers
        self._slow = slow
        #: How many times a contestant's cell repeats the pairs, by contestant and row.
        self._passes: dict[tuple[str, str], int] = {}

    def verify(self, contestant: Contestant, row: PairsRow) -> None:
        """Raises ContestantError if a value is wrong, in the client or on the server."""
        spec = row.spec(self._address(row), min(row.count, max(VERIFY_PAIRS, 2 * row.concurrency)))
        prepare(spec, self._servers[0])
        playing.verify(partial(contestant.ask, seconds=VERIFY_SECONDS), spec)
        wrong = held_wrongly(values_of(spec), self._servers[:1])
        if wrong:
            raise ContestantError(wrong)
        if row.count < PAIRS and row.link == NEAR:
            seconds = self._cell(contestant, row, 0, 1).wall
            enough = min(math.ceil(LEAST_SECONDS / seconds), PAIRS // row.count)
            self._passes[contestant.entry.name, row.name] = enough

    def time(self, contestant: Contestant, row: PairsRow, number: int) -> Measured:
        """Returns a timed cell. Raises ContestantError if it failed, or if the server counted something else."""
        return Measured(self._cell(contestant, row, number, self._passes.get((contestant.entry.name, row.name), 1)))

    def _cell(self, contestant: Contestant, row: PairsRow, number: int, passes: int) -> Sample:
        spec = row.spec(self._address(row), passes=passes)
        prepare(spec, self._servers[0])
        before = Counts.taken(self._servers[:1])
        reply = playing.time(contestant.ask, spec)
        wrong = Counts.taken(self._servers[:1]).minus(before).difference(expected_counts(spec))
        if wrong:
            raise ContestantError(wrong)
        latency = None if reply["latency"] is None else Latency(**reply["latency"])
        name = contestant.entry.name
        return Sample(
            number, row.name, name, passes * row.count, reply["wall"], reply["user"], reply["system"], latency
        )

    def _address(self, row: PairsRow) -> str:
        if row.link == NEAR:
            return self._servers[0].name
        if self._slow is None:
            raise ContestantError("there is no slow link")
        return self._slow


def prepare(spec: PairsSpec, server: Server) -> None:
    """Empties the server. For a row of gets, stores the values to find."""
    server.flush()
    if spec["operation"] == "get":
        server.store(values_of(spec))


def values_of(spec: PairsSpec) -> dict[str, bytes]:
    """Returns the values by key."""
    return {key: value_of("bytes", spec["length"], text) for key, text in spec["pairs"]}


def expected_counts(spec: PairsSpec) -> Counts:
    """Returns what the server counts when the row is timed once, including warm-up and single calls."""
    count = spec["warmup"] + spec["passes"] * len(spec["pairs"]) + spec["clocked"]
    return Counts(count, 0, 0, 0) if spec["operation"] == "get" else Counts(0, count, 0, 0)
