"""The work of the workers in a row of locks, in every concurrency model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from pinyon.cli.stress import exercise
from pinyon.cli.stress.models import Model

from ..protocol import LocksSpec
from ..wrong import expect
from .calls import LockCalls
from .tally import Tally

VALUE_KEY = "__TEST__"
#: The seed's values have so many digits.
LARGE = 10**14
#: How long a worker stays inside during verification: long enough for another to come in, if it could.
INSIDE_SECONDS = 1e-4
WORK_SECONDS = 1e-3


async def ping(model: Model, calls: LockCalls, count: int, tally: Tally) -> None:
    """Sends one command after another, and reads the clock around each."""
    outcome, execute, seconds = model.outcome, calls.execute, tally.seconds
    for _ in range(count):
        start = perf_counter()
        await outcome(execute("PING"))
        seconds.append(perf_counter() - start)
        tally.count += 1


async def rate(model: Model, allow: Callable[[], Any], count: int, tally: Tally) -> None:
    """Takes one permit after another, and reads the clock around each."""
    outcome, seconds = model.outcome, tally.seconds
    for number in range(count):
        start = perf_counter()
        allowed = await outcome(allow())
        seconds.append(perf_counter() - start)
        expect("allow", number, bool(allowed), True)
        tally.count += 1


async def lock_each(calls: LockCalls, draws: Iterator[list[str]], tally: Tally) -> None:
    """Locks, counts, unlocks. Reads the clock before each lock and within.

    There is one version for each kind of context: a common one would add half a microsecond to the measured time.
    """
    lock, seconds = calls.lock, tally.seconds
    for names in draws:
        start = perf_counter()
        with lock(names):
            seconds.append(perf_counter() - start)
            tally.count += 1


async def lock_awaiting(calls: LockCalls, draws: Iterator[list[str]], tally: Tally) -> None:
    """The same with locks that are awaited."""
    lock, seconds = calls.lock, tally.seconds
    for names in draws:
        start = perf_counter()
        async with lock(names):
            seconds.append(perf_counter() - start)
            tally.count += 1


async def pair(model: Model, calls: LockCalls, draws: Iterator[list[str]], tally: Tally) -> None:
    """Locks, counts, unlocks. Reads the clock around the whole of it."""
    context, lock, seconds = model.held, calls.lock, tally.seconds
    for names in draws:
        start = perf_counter()
        async with context(lock(names)):
            tally.count += 1
        seconds.append(perf_counter() - start)


async def hold(model: Model, calls: LockCalls, row: LocksSpec, tally: Tally) -> list[list[int]]:
    """Locks repeatedly, at least once. Returns when each lock was requested, acquired, and about to be released.

    In nanoseconds of the clock that all processes share, since the row's start.
    """
    context, lock, names, now = model.held, calls.lock, row["names"], time.monotonic_ns
    start = round(row["start"] * 1e9)
    until = start + round(row["seconds"] * 1e9)
    held: list[list[int]] = []
    await model.sleep(max(0.0, row["start"] - time.monotonic()))
    # A process that could not run until then gets its turn too.
    while (asked := now()) < until or not held:
        async with context(lock(names)):
            entered = now()
            tally.count += 1
            leaving = now()
        held.append([asked - start, entered - start, leaving - start])
    return held


class Checked(exercise.Worker):
    """Notes when it is inside, and gives others time to enter, which they must not."""

    def __init__(self, model: Model, draws: Iterator[list[str]], tally: Tally) -> None:
        super().__init__(model)
        self._draws = draws
        self._tally = tally
        self._names: list[str] = []

    def draw(self) -> bool:
        self._names = next(self._draws, [])
        return bool(self._names)

    def lock(self, locks: LockCalls) -> Any:
        return locks.lock(self._names)

    async def inside(self, locks: LockCalls, held: Any) -> None:
        entered = perf_counter()
        await self.stay(locks)
        self._tally.note(entered, perf_counter())

    async def stay(self, locks: LockCalls) -> None:
        """Does the work inside the section."""
        await self.model.sleep(INSIDE_SECONDS)


class Working(Checked):
    """Works for a millisecond while it has the name."""

    async def stay(self, locks: LockCalls) -> None:
        """Does the work."""
        await self.model.sleep(WORK_SECONDS)


class Reading(Working):
    """The same beside others: that several are inside is right."""

    async def inside(self, locks: LockCalls, held: Any) -> None:
        await self.stay(locks)
        self._tally.count += 1


class Writing(Checked):
    """The seed's second test: sleeps, locks, writes, increases, reads, deletes and unlocks, until the time is up."""

    def __init__(self, model: Model, draws: Iterator[list[str]], delay: float, until: float, tally: Tally) -> None:
        super().__init__(model, draws, tally)
        self._delay, self._until = delay, until

    def draw(self) -> bool:
        return perf_counter() < self._until and super().draw()

    async def take(self, locks: LockCalls) -> None:
        await self.model.sleep(self._delay)
        await super().take(locks)

    async def stay(self, locks: LockCalls) -> None:
        value = self._tally.count * LARGE
        await self.model.outcome(locks.execute("SET", VALUE_KEY, str(value)))
        await self.model.outcome(locks.execute("INCR", VALUE_KEY))
        read = await self.model.outcome(locks.execute("GET", VALUE_KEY))
        expect("GET", VALUE_KEY, int(read), value + 1)
        await self.model.outcome(locks.execute("DEL", VALUE_KEY))
