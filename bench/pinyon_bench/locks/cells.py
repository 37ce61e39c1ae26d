"""Verifies and times rows of locks, one contestant and row at a time, and records what Redis did for them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from time import monotonic, sleep
from typing import Any

from .. import playing
from ..contestant import Contestant, ContestantError
from ..coroutines.link import LinkError, delay_proxy
from ..placement import PlacementError, apart_from
from ..results import Handovers, Latency, Measured, Sample, ServerWork
from ..servers import ServerError
from .handover import Processes, handover_seconds, held_by_all
from .origins import Origins, listening
from .rows import LocksRow
from .server import LockServer, LockServers, Statistics, start_lock_servers
from .workloads import (
    APART,
    FAR,
    FAR_ONE_WAY_MILLISECONDS,
    HANDOVER,
    PAIR,
    PERMITS,
    PING,
    PIPELINED,
    QUORUM,
    QUORUM_SERVERS,
    RATE,
    READ,
)

VERIFY_CYCLES, VERIFY_WORKERS, VERIFY_SECONDS = 12, 3, 0.1
VERIFY_LIMIT, TIME_LIMIT = 30.0, 120.0
#: Cycles of a trial, for contestants that verify this fast. The others do as many as for verification.
TRIAL_CYCLES, TRIAL_WALL = 100, 0.1
WARM_UP = 20
#: Until all servers of a quorum have released a lock; it lives longer.
RELEASE_SECONDS = 1.0
#: The longest time of a cell, as a multiple of the time of cells whose length can be chosen.
LONGEST_CELLS = 50.0


class LocksCells:
    """The cells of rows of locks on one Redis server. `without`: the reason if there is no server."""

    def __init__(self, server: LockServer | None, without: str, cores: set[int] | None, cell_seconds: float) -> None:
        self._server = server
        self._without = without
        self._cores = cores
        self._cell_seconds = cell_seconds
        self._counts: dict[tuple[str, str], int] = {}
        self._origins: dict[tuple[str, str], Origins] = {}
        self._processes: dict[str, Processes] = {}
        self._several: dict[bool, LockServers] = {}
        self._far: dict[str, str] = {}
        self._opened = ExitStack()

    def close(self) -> None:
        """Ends the processes of the hand-over, the far links, and the servers of a quorum."""
        for processes in self._processes.values():
            processes.close()
        self._opened.close()

    def verify(self, contestant: Contestant, row: LocksRow) -> None:
        """Finds how many cycles fill the cell; raises ContestantError for a lock that does not exclude, stays, or is too slow."""
        servers, cell = self._servers(row), (row.name, contestant.entry.name)
        servers.reset()
        with listening(*servers.each) as origins:
            if row.workload == HANDOVER:
                spec = row.spec(self._address(row), 0, VERIFY_SECONDS)
                held_by_all(self._processes_of(contestant, row).ask(spec, VERIFY_LIMIT))
                wall = 0.0
            else:
                wall = self._verify_alone(contestant, row)
        self._origins[cell] = origins
        left = _left(servers, row)
        if left:
            raise ContestantError(f"{len(left)} locks were left behind, of {left[0]!r}")
        if row.workload == HANDOVER:
            self._counts[cell] = 0
            return
        per_cycle = 0.0 if row.seconds else self._trial(contestant, row, wall)
        self._require_time(row, per_cycle, wall)
        filling = 0 if row.seconds else max(2, round(self._cell_seconds * row.together / per_cycle))
        self._counts[cell] = row.count or filling

    def _verify_alone(self, contestant: Contestant, row: LocksRow) -> float:
        workers = min(row.workers, VERIFY_WORKERS)
        count, seconds = (0, VERIFY_SECONDS) if row.seconds else (VERIFY_CYCLES, 0.0)
        spec = row.spec(self._address(row), count, seconds, workers)
        reply = playing.verify(partial(contestant.ask, seconds=VERIFY_LIMIT), spec)
        return float(reply["wall"])

    def _trial(self, contestant: Contestant, row: LocksRow, wall: float) -> float:
        """Returns how long a cycle takes with a single worker."""
        cycles = TRIAL_CYCLES if wall < TRIAL_WALL else VERIFY_CYCLES
        spec = row.spec(self._address(row), cycles, 0.0, workers=1)
        return float(playing.time(partial(contestant.ask, seconds=VERIFY_LIMIT), spec)["wall"]) / cycles

    def _require_time(self, row: LocksRow, per_cycle: float, wall: float) -> None:
        """Raises ContestantError if a cell would take too long.

        Workers that poll wait for each other, and the more there are the longer. Verification has shown how long a
        few of them take.
        """
        waiting = max(0.0, wall - (VERIFY_SECONDS if row.seconds else 0.0)) * row.workers / VERIFY_WORKERS
        expected = row.seconds + row.count * per_cycle / row.together + (waiting if row.workers > 1 else 0.0)
        if expected > row.seconds + self._cell_seconds * LONGEST_CELLS:
            raise ContestantError(f"not timed: its {row.workers} workers would take about {expected:.0f} s a round")

    def time(self, contestant: Contestant, row: LocksRow, number: int) -> Measured:
        """Returns a timed cell. Raises ContestantError if it failed."""
        servers, name = self._servers(row), contestant.entry.name
        count = self._counts[row.name, name]
        warmup = WARM_UP if row.workload in (PING, PAIR, PIPELINED, QUORUM, READ, PERMITS, RATE) else 0
        spec = row.spec(self._address(row), count, row.seconds, warmup=warmup)
        servers.reset()
        before = servers.statistics()
        if row.workload == HANDOVER:
            replies = self._processes_of(contestant, row).ask(spec, TIME_LIMIT)
        else:
            replies = [playing.time(partial(contestant.ask, seconds=TIME_LIMIT), spec)]
        work = self._work(servers.work_since(before), row, name, number, sum_of(replies, "cycles") + warmup)
        if row.workload == HANDOVER:
            return _handed_over(replies, work)
        reply = replies[0]
        latency = None if reply["latency"] is None else Latency(**reply["latency"])
        times = (reply["wall"], reply["user"], reply["system"])
        return Measured(Sample(number, row.name, name, reply["cycles"], *times, latency), work)

    def _work(self, counted: Statistics, row: LocksRow, name: str, number: int, cycles: int) -> ServerWork:
        origins = self._origins[row.name, name]
        shares = {command: origins.share_sent(command) for command in counted.calls}
        sent = {command: calls * shares[command] for command, calls in counted.calls.items() if shares[command]}
        spent = sum(microseconds * shares[command] for command, microseconds in counted.microseconds.items())
        return ServerWork(number, row.name, name, cycles, counted.calls, sent, spent, counted.reads)

    def _processes_of(self, contestant: Contestant, row: LocksRow) -> Processes:
        name = contestant.entry.name
        if name not in self._processes:
            self._processes[name] = Processes(contestant.entry, self._cores, row.workers)
        return self._processes[name]

    def _address(self, row: LocksRow) -> str:
        """The servers' addresses for contestants: their own, or those of processes in between that delay every byte."""
        names = [server.name for server in self._servers(row).each]
        return ",".join(map(self._from_afar, names) if row.link == FAR else names)

    def _from_afar(self, name: str) -> str:
        if name not in self._far:
            try:
                self._far[name] = self._opened.enter_context(delay_proxy(name, FAR_ONE_WAY_MILLISECONDS, None))
            except LinkError as error:
                raise ContestantError(str(error)) from None
        return self._far[name]

    def _servers(self, row: LocksRow) -> LockServers:
        """The row's servers. Those of a quorum are started for the first row that needs them there."""
        if self._server is None:
            raise ContestantError(self._without)
        if row.workload != QUORUM:
            return LockServers((self._server,))
        apart = row.link == APART
        if apart not in self._several:
            try:
                cores = apart_from(self._cores, row.name) if apart else self._server.cores
                self._several[apart] = self._opened.enter_context(start_lock_servers(QUORUM_SERVERS, cores))
            except (PlacementError, ServerError) as error:
                raise ContestantError(str(error)) from None
        return self._several[apart]


def _left(servers: LockServers, row: LocksRow) -> list[str]:
    """The locks that stay. On several servers, a client need not wait until the last one has released."""
    until = monotonic() + (RELEASE_SECONDS if row.workload == QUORUM else 0.0)
    while (left := servers.locks_left(row.ttl)) and monotonic() < until:
        sleep(0.01)
    return left


def _handed_over(replies: list[dict[str, Any]], work: ServerWork) -> Measured:
    """Combines the replies of all processes. `latency` is that of the hand-over."""
    found = held_by_all(replies)
    seconds = list(handover_seconds(found))
    latency = playing.latency_of(seconds)
    wall = max(reply["wall"] for reply in replies)
    times = (wall, sum_of(replies, "user"), sum_of(replies, "system"))
    cell = (work.round, work.row, work.contestant)
    sample = Sample(*cell, len(found), *times, None if latency is None else Latency(**latency))
    return Measured(sample, work, Handovers(*cell, len(found), len(seconds)))


def sum_of(replies: list[dict[str, Any]], name: str) -> Any:
    """Returns the sum of a field over all replies."""
    return sum(reply[name] for reply in replies)
