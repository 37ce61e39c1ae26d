"""A client at work on eight servers while one of them stops or dies."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from ..placement import Placement, pinned
from ..servers import Server, ServerError, start_server, start_servers
from .clients import CONTENDERS, TIMEOUT, Contender
from .worker import KEYS

SERVERS = 8
HEALTHY_SECONDS = 3.0
STOPPED_SECONDS = 3.0
#: The time between a server's return and the next run, in which every client notices the return.
REST_SECONDS = 2.5
DEAD_SECONDS = 3.0
#: How often keys are stored until all servers have some.
FILLINGS = 5
BACK_SECONDS = 8.0
#: The client works in runs of this length until the server is asked again.
BACK_STEP_SECONDS = 0.5
#: An operation that took this part of the timeout has waited for the server.
PART_OF_TIMEOUT = 0.5


@dataclass(frozen=True)
class Outcome:
    """The cost of losing one server of eight, for one contender. In seconds, unless stated otherwise.

    The percentiles are those of the best round, since everything else on the machine can only increase them.
    """

    contender: Contender
    healthy_p50: float
    healthy_p99: float
    stopped_p50: float
    stopped_p99: float
    #: In one run with the server stopped: how many operations waited for it until their timeout, and for how long at
    #: least one of them did.
    timeouts: float
    lost: float
    #: The time from the restart of a killed server until it is asked again; None if it was not.
    back: float | None
    #: The fraction of operations on keys of the other servers that did not return the value while one server was
    #: stopped.
    missed: float


def measure(contender: Contender, rounds: int, placement: Placement) -> Outcome:
    """Runs one contender: healthy and stopped alternately, then killed and restarted."""
    with ExitStack() as stack:
        servers = stack.enter_context(start_servers(SERVERS - 1, placement.server))
        victim = stack.enter_context(start_server(placement.server, servers[-1].port + 1))
        worker, lost = _filled(contender, [*servers, victim], placement, stack)
        worker.run(lost, 0.5)
        healthy, stopped = [], []
        for _ in range(rounds):
            healthy.append(worker.run(lost, HEALTHY_SECONDS))
            with _stopped(victim):
                stopped.append(worker.run(lost, STOPPED_SECONDS))
            worker.run(lost, REST_SECONDS)
        back = _killed_and_restarted(worker, victim, lost, stack, placement)
    return _outcome(contender, healthy, stopped, back)


def _outcome(contender: Contender, healthy: list[Any], stopped: list[Any], back: float | None) -> Outcome:
    well, ill = ([_percentiles(run["others"]) for run in runs] for runs in (healthy, stopped))
    (healthy_p50, healthy_p99), (stopped_p50, stopped_p99) = (map(min, zip(*rounds)) for rounds in (well, ill))
    waits = [
        [wait for wait in map(tuple, run["lost"]) if wait[1] - wait[0] >= TIMEOUT * PART_OF_TIMEOUT] for run in stopped
    ]
    return Outcome(
        contender,
        healthy_p50,
        healthy_p99,
        stopped_p50,
        stopped_p99,
        timeouts=statistics.median(len(each) for each in waits),
        lost=statistics.median(covered(each) for each in waits),
        back=back,
        missed=sum(run["missed"] for run in stopped) / sum(len(run["others"]) for run in stopped),
    )


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    hundredths = statistics.quantiles(seconds, n=100)
    return hundredths[49], hundredths[98]


def covered(waits: list[tuple[float, float]]) -> float:
    """Returns for how long at least one of them was under way."""
    total, until = 0.0, float("-inf")
    for begun, ended in sorted(waits):
        total += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return total


class _Worker:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, lost: list[str], seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"lost": lost, "seconds": seconds}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ServerError("the client's process has ended")
        return json.loads(line)

    def run(self, lost: list[str], seconds: float) -> Any:
        self.begin(lost, seconds)
        return self.answer()


def _filled(
    contender: Contender, servers: list[Server], placement: Placement, stack: ExitStack
) -> tuple[_Worker, list[str]]:
    """A worker whose keys are on all servers, and the keys of the last one.

    A server that a busy machine holds up is marked down, and its keys go to the others: they are stored anew then.
    """
    for _ in range(FILLINGS):
        for server in servers:
            server.flush()
        with ExitStack() as attempt:
            worker = attempt.enter_context(_worker(contender, servers, placement))
            lost = [key for key in KEYS if servers[-1].stored(key) is not None]
            if 0 < len(lost) < len(KEYS) / 2:
                stack.push(attempt.pop_all())
                return worker, lost
    raise ServerError(f"{contender.name}: one of {SERVERS} servers holds {len(lost)} of {len(KEYS)} keys")


@contextmanager
def _worker(contender: Contender, servers: list[Server], placement: Placement) -> Iterator[_Worker]:
    number, names = CONTENDERS.index(contender), [server.name for server in servers]
    command = [sys.executable, "-m", "pinyon_bench.failure.worker", str(number), *names]
    with pinned(placement.client):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        worker = _Worker(process)
        worker.answer()
        yield worker
    finally:
        process.kill()
        process.wait()


@contextmanager
def _stopped(server: Server) -> Iterator[None]:
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def _killed_and_restarted(
    worker: _Worker, victim: Server, lost: list[str], stack: ExitStack, placement: Placement
) -> float | None:
    worker.begin(lost, DEAD_SECONDS)
    victim.process.kill()
    # Before waiting for the process: under load that may take a machine many seconds.
    worker.answer()
    victim.process.wait()
    returned = stack.enter_context(start_server(placement.server, victim.port))
    if returned.port != victim.port:
        raise ServerError(f"port {victim.port} was taken by another process")
    started = time.monotonic()
    while time.monotonic() - started < BACK_SECONDS:
        worker.begin(lost, BACK_STEP_SECONDS)
        asked = _asked_within(returned, BACK_STEP_SECONDS)
        worker.answer()
        if asked is not None:
            return asked - started
    return None


def _asked_within(server: Server, seconds: float) -> float | None:
    """Returns when a server first receives a request; None when it receives none in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        counters = server.counters()
        if counters["cmd_get"] or counters["cmd_set"]:
            return time.monotonic()
        time.sleep(0.01)
    return None
