"""How long nobody is granted a lock when the primary is killed, and how much of that its Sentinels or its cluster take."""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import threading
import time
from pathlib import Path

import pinyon

from .clustered import NODE_TIMEOUT, Clustered
from .settings import NAMESPACE
from .watched import Watched

#: Milliseconds without a sign of life after which Sentinels call the primary down.
DOWN_AFTER = 500
#: Seconds between a waiter's signs of life.
HEARTBEAT = 1.0
#: Clients that take the same lock in turn. Some of them wait for it when the primary dies.
CLIENTS = 4
#: An answer of the old primary is read within so many seconds.
READ = 0.1
#: How long to wait for the next grant.
PATIENCE = 60.0


class _Clients:
    """They take a lock in turn, and note when."""

    def __init__(self, url: str) -> None:
        self.granted: list[float] = []
        self._url = url
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        settings = {"namespace": NAMESPACE, "ttl": 30.0, "heartbeat": HEARTBEAT, "timeout": PATIENCE}
        with pinyon.Locks(self._url, **settings) as locks:  # type: ignore[arg-type]
            while not self._stopped.is_set():
                with contextlib.suppress(pinyon.Error), locks.lock("n0"):
                    self.granted.append(time.monotonic())
                    time.sleep(0.002)

    def first_after(self, moment: float) -> float:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            after = [granted for granted in self.granted if granted > moment]
            if after:
                return min(after)
            time.sleep(0.002)
        raise RuntimeError(f"nobody was granted the lock within {PATIENCE:g} s")

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


def _round(group: Watched | Clustered, clients: _Clients) -> tuple[float, float]:
    """Return the seconds from the kill to the agreement on the next primary, and to the next grant."""
    clients.first_after(time.monotonic())
    old, killed = group.primary, time.monotonic()
    old.kill()
    agreed: list[float] = []

    def wait() -> None:
        group.wait_for_next(old)
        agreed.append(time.monotonic())

    waiting = threading.Thread(target=wait)
    waiting.start()
    granted = clients.first_after(killed + READ)
    waiting.join()
    old.start(afresh=True)
    group.settle()
    return agreed[0] - killed, granted - killed


def _measure(name: str, group: Watched | Clustered, rounds: int) -> None:
    try:
        group.start()
        group.let_fail_over(wanted=True)
        clients = _Clients(group.url)
        try:
            taken = [_round(group, clients) for _ in range(rounds)]
        finally:
            clients.stop()
    finally:
        group.stop()
    columns = [[agreed for agreed, _ in taken], [granted for _, granted in taken], [b - a for a, b in taken]]
    print(f"{name:<10}" + "".join(f"{statistics.median(column):>10.2f}{max(column):>8.2f}" for column in columns))


def _times(options: argparse.Namespace) -> int:
    print(
        f"{options.rounds} kills of a primary; seconds. Called down after {DOWN_AFTER} ms by Sentinels, {NODE_TIMEOUT} ms"
    )
    print(f"in the cluster; a heartbeat takes {HEARTBEAT:g} s.")
    print(f"{'':<10}{'until the others agree':>18}{'to the next grant':>18}{'more':>18}")
    print(f"{'':<10}" + "    median    most" * 3, flush=True)
    with tempfile.TemporaryDirectory(prefix="pv-") as folder:
        _measure("Sentinel", Watched(Path(folder) / "watched", linked=False, down_after=DOWN_AFTER), options.rounds)
        _measure("Cluster", Clustered(Path(folder) / "cluster"), options.rounds)
    return 0


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the program to those of the command line."""
    times = verbs.add_parser("failovers", help="measure the time from the kill of a primary to the next lock")
    times.add_argument("--rounds", type=int, default=10, help="how many kills; default: 10")
    times.set_defaults(carry_out=_times)
