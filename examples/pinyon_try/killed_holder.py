"""The third scene: two processes want one name. One is killed while it holds it; later one hangs while it holds it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pinyon

from .processes import PATIENCE, started
from .record import Bar, Chart, Mark, shown
from .screen import Screen
from .servers import Server

NAME = "invoice:7"
#: Short, so that a viewer waits no longer than necessary. In seconds.
TTL = 2.0


def play(screen: Screen, folder: Path, ttl: float = TTL) -> None:
    """Play the scene.

    Args:
        screen: where to show it.
        folder: for the socket of Redis.
        ttl: how long the lock outlives a holder that has died, in seconds.
    """
    screen.scene(
        "A lock between processes",
        f"Processes want the lock {NAME!r}, with a ttl of {ttl:.0f} s. Pinyon renews it while its holder lives.",
    )
    with Server("redis-server", folder / "redis.sock") as server, contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(_worker(label, server, ttl)) for label in "ABC")
        _kill(screen, first, second, ttl)
        _hang(screen, second, third)


def _kill(screen: Screen, holder: _Worker, waiter: _Worker, ttl: float) -> None:
    chart = screen.chart("The holder is killed", time.monotonic())
    token, since = holder.acquire()
    screen.tell(f"process {holder.label} holds the lock, with token {token}")
    waiter.ask("acquire")
    asked = waiter.hear("asks")[0]
    screen.tell(f"process {waiter.label} asks for it, and waits")
    # Longer than the ttl: it is the renewals that keep the lock.
    time.sleep(ttl * 1.25)
    died = time.monotonic()
    holder.kill()
    chart.marks.append(Mark(died, f"kill -9 {holder.pid}"))
    screen.tell(f"kill -9 {holder.pid} (process A), which held the lock for {shown(died - since)}")
    got, next_token = waiter.hear("holds")
    screen.tell(f"process {waiter.label} holds the lock, with token {next_token}")
    screen.find(f"The lock was free {shown(got - died)} after its holder's death: the ttl is {ttl:.0f} s.")
    screen.find(f"Token {next_token} is higher than {token}." if next_token > token else "The tokens did not grow.")
    chart.bars.append(Bar("process A", since, died, "holds", f"holds, token {token}"))
    chart.bars.append(Bar("process A", died, got, "locked", "dead; the lock lasts"))
    chart.bars.append(Bar("process B", asked, got, "waits", "waits"))
    chart.bars.append(Bar("process B", got, time.monotonic() + 0.5, "holds", f"token {next_token}"))
    waiter.held = (next_token, got)


def _hang(screen: Screen, holder: _Worker, waiter: _Worker) -> None:
    """The holder does not know that its lock has passed to another. Only tokens protect the data then."""
    chart = screen.chart("The holder hangs longer than the ttl, and goes on working", time.monotonic())
    ledger = _Ledger()
    token, _ = holder.held
    waiter.ask("acquire")
    asked = waiter.hear("asks")[0]
    stopped = time.monotonic()
    holder.signal(signal.SIGSTOP)
    chart.marks.append(Mark(stopped, f"kill -STOP {holder.pid}"))
    screen.tell(f"kill -STOP {holder.pid} (process B), which holds the lock with token {token}")
    got, next_token = waiter.hear("holds")
    screen.tell(f"process C holds the lock {shown(got - stopped)} later, with token {next_token}")
    screen.tell(f"process C writes with token {next_token}: {ledger.write(next_token)}")
    went_on = time.monotonic()
    holder.signal(signal.SIGCONT)
    chart.marks.append(Mark(went_on, "kill -CONT"))
    holder.ask("check")
    checked, answer = holder.hear("checked")
    screen.tell(f"process B goes on; held.check() there: {answer}")
    screen.tell(f"process B writes nevertheless, with token {token}: {ledger.write(token)}")
    refused = ledger.refused
    screen.find(f"Writes with an old token: {refused} refused, {ledger.mixed} let through.")
    end = max(checked, time.monotonic()) + 0.3
    _draw_hang(chart, (stopped, asked, got, went_on, end), (token, next_token))


def _draw_hang(chart: Chart, times: tuple[float, float, float, float, float], tokens: tuple[int, int]) -> None:
    stopped, asked, got, went_on, end = times
    chart.bars.append(Bar("process B", chart.begin, stopped, "holds"))
    chart.bars.append(Bar("process B", stopped, went_on, "hung", f"hangs with token {tokens[0]}"))
    chart.bars.append(Bar("process B", went_on, end, "lost", "lost"))
    chart.bars.append(Bar("process C", asked, got, "waits", "waits"))
    chart.bars.append(Bar("process C", got, end, "holds", f"token {tokens[1]}"))


class _Ledger:
    """What the lock protects. It remembers the highest token, and refuses writes with a lower one."""

    def __init__(self) -> None:
        self.refused = 0
        self._written: list[int] = []

    @property
    def highest(self) -> int:
        """The highest token that has written."""
        return max(self._written, default=0)

    @property
    def mixed(self) -> int:
        """How many writes have come after one with a higher token."""
        return sum(later < earlier for earlier, later in zip(self._written, self._written[1:]))

    def write(self, token: int) -> str:
        """Write. Returns what became of it."""
        if token < self.highest:
            self.refused += 1
            return f"refused, because token {self.highest} has written"
        self._written.append(token)
        return "written"


@contextlib.contextmanager
def _worker(label: str, server: Server, ttl: float) -> Iterator[_Worker]:
    """Start a process that acquires the lock when it is asked to, with this ttl in seconds."""
    with started(_work, str(server.path), ttl) as (process, pipe):
        worker = _Worker(label, process, pipe)
        worker.hear("ready")
        yield worker


class _Worker:
    """Our end of such a process. Its label is its name in the scene."""

    def __init__(self, label: str, process: SpawnProcess, pipe: Connection) -> None:
        self.label = label
        self.held = (0, 0.0)
        self._process = process
        self._pipe = pipe

    @property
    def pid(self) -> int:
        """The process."""
        if self._process.pid is None:
            raise RuntimeError(f"process {self.label} was not started")
        return self._process.pid

    def ask(self, what: str) -> None:
        """Tell the process what to do."""
        self._pipe.send(what)

    def hear(self, what: str) -> tuple[float, Any]:
        """Wait for what the process says. Returns when it was, and what the process adds."""
        if not self._pipe.poll(PATIENCE):
            raise TimeoutError(f"process {self.label} does not say {what!r} within {PATIENCE} s")
        said, at, more = self._pipe.recv()
        if said != what:
            raise RuntimeError(f"process {self.label} says {said!r} instead of {what!r}: {more}")
        return at, more

    def acquire(self) -> tuple[int, float]:
        """Let it acquire the free lock. Returns the token, and since when it holds."""
        self.ask("acquire")
        self.hear("asks")
        since, token = self.hear("holds")
        self.held = (token, since)
        return self.held

    def kill(self) -> None:
        """Kill the process, if it lives."""
        self._process.kill()
        self._process.join()

    def signal(self, number: signal.Signals) -> None:
        """Stop the process (``SIGSTOP``), or let it go on (``SIGCONT``)."""
        os.kill(self.pid, number)


def _work(path: str, ttl: float, pipe: Connection) -> None:
    """Be the process."""
    locks = pinyon.Locks(f"unix://{path}", ttl=ttl)
    locks.is_locked(NAME)
    pipe.send(("ready", time.monotonic(), None))
    held: pinyon.Held | None = None
    while True:
        if pipe.recv() == "acquire":
            pipe.send(("asks", time.monotonic(), None))
            held = locks.lock(NAME, timeout=PATIENCE).acquire()
            pipe.send(("holds", time.monotonic(), held.token))
            continue
        pipe.send(("checked", time.monotonic(), _checked(held)))


def _checked(held: pinyon.Held | None) -> str:
    try:
        if held is not None:
            held.check()
    except pinyon.LockLost as error:
        return f"LockLost: {error}"
    return "still held"
