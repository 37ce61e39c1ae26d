"""Verifies and times rows of pairs, one contestant and row at a time; the servers check what the contestant says."""

from __future__ import annotations

import math

from ..checks import Counts, held_wrongly
from ..contestant import Contestant, ContestantError, answered
from ..protocol import PairsSpec, value_of
from ..results import Latency, Measured, Sample
from ..servers import Server
from .link import Link
from .rows import NEAR, PAIRS, PairsRow

VERIFY_SECONDS = 30.0
VERIFY_PAIRS = 300
#: A cell of `run` goes over its few pairs again until it has lasted so long, or made as many operations as the seed's:
#: in a shorter one starting the coroutines is a good part of what is timed.
LEAST_SECONDS = 0.05


class PairsCells:
    """The cells of rows of pairs, on the first server, or over the slow link when there is one."""

    def __init__(self, servers: list[Server], slow: Link | None) -> None:
        self._servers = servers
        self._slow = slow
        #: How often a contestant's cell goes over the pairs, by contestant and row.
        self._passes: dict[tuple[str, str], int] = {}

    def verify(self, contestant: Contestant, row: PairsRow) -> None:
        """Raises ContestantError when a value is wrong, here or on the server."""
        link = self._link(row)
        spec = row.spec(link.address, min(row.count, max(VERIFY_PAIRS, 2 * row.concurrency)))
        prepare(spec, link.server)
        answered(contestant.ask({"do": "verify", "row": spec}, VERIFY_SECONDS))
        wrong = held_wrongly(values_of(spec), [link.server])
        if wrong:
            raise ContestantError(wrong)
        if row.count < PAIRS and row.link == NEAR:
            seconds = self._cell(contestant, row, 0, 1).wall
            enough = min(math.ceil(LEAST_SECONDS / seconds), PAIRS // row.count)
            self._passes[contestant.entry.name, row.name] = enough

    def time(self, contestant: Contestant, row: PairsRow, number: int) -> Measured:
        """Returns a timed cell; raises ContestantError when it failed or the server counted something else."""
        return Measured(self._cell(contestant, row, number, self._passes.get((contestant.entry.name, row.name), 1)))

    def _cell(self, contestant: Contestant, row: PairsRow, number: int, passes: int) -> Sample:
        link = self._link(row)
        spec = row.spec(link.address, passes=passes)
        prepare(spec, link.server)
        before = Counts.taken([link.server])
        reply = answered(contestant.ask({"do": "time", "row": spec}))
        wrong = Counts.taken([link.server]).minus(before).difference(expected_counts(spec))
        if wrong:
            raise ContestantError(wrong)
        latency = None if reply["latency"] is None else Latency(**reply["latency"])
        name = contestant.entry.name
        return Sample(
            number, row.name, name, passes * row.count, reply["wall"], reply["user"], reply["system"], latency
        )

    def _link(self, row: PairsRow) -> Link:
        if row.link == "near":
            return Link("", self._servers[0], self._servers[0].name)
        if self._slow is None:
            raise ContestantError("there is no slow link")
        return self._slow


def prepare(spec: PairsSpec, server: Server) -> None:
    """Empties the server; for a row of gets, stores what they are to find."""
    server.flush()
    if spec["operation"] == "get":
        server.store(values_of(spec))


def values_of(spec: PairsSpec) -> dict[str, bytes]:
    """Returns the values by key."""
    return {key: value_of("bytes", spec["length"], text) for key, text in spec["pairs"]}


def expected_counts(spec: PairsSpec) -> Counts:
    """Returns what the server counts when the row is timed once, with warm-up and single calls."""
    count = spec["warmup"] + spec["passes"] * len(spec["pairs"]) + spec["clocked"]
    return Counts(count, 0, 0, 0) if spec["operation"] == "get" else Counts(0, count, 0, 0)
