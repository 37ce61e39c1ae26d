"""What one worker does, in tasks of an event loop: `blocking_work`, awaited."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from time import perf_counter

from ..model import expect
from ..protocol import LocksSpec
from .blocking_work import VALUE_KEY
from .calls import LockCalls
from .tally import INSIDE_SECONDS, LARGEST_VALUE, Tally

Pause = Callable[[float], Awaitable[None]]


async def ping(calls: LockCalls, count: int, tally: Tally) -> None:
    execute, seconds = calls.execute, tally.seconds
    for _ in range(count):
        start = perf_counter()
        await execute("PING")
        seconds.append(perf_counter() - start)
        tally.count += 1


async def cycle(calls: LockCalls, draws: Iterator[list[str]], tally: Tally) -> None:
    lock, seconds = calls.lock, tally.seconds
    for names in draws:
        start = perf_counter()
        async with lock(names):
            seconds.append(perf_counter() - start)
            tally.count += 1


async def check(calls: LockCalls, draws: Iterator[list[str]], pause: Pause, tally: Tally) -> None:
    for names in draws:
        async with calls.lock(names):
            tally.enter()
            await pause(INSIDE_SECONDS)
            tally.leave()


async def work(calls: LockCalls, row: LocksSpec, delay: float, until: float, pause: Pause, tally: Tally) -> None:
    source = random.Random(delay)
    lock, execute = calls.lock, calls.execute
    while perf_counter() < until:
        await pause(delay)
        async with lock(source.sample(row["names"], row["keys"])):
            tally.enter()
            value = source.randrange(LARGEST_VALUE)
            await execute("SET", VALUE_KEY, str(value))
            await execute("INCR", VALUE_KEY)
            expect(["GET", VALUE_KEY], int(await execute("GET", VALUE_KEY)), value + 1)
            await execute("DEL", VALUE_KEY)
            tally.leave()
