"""What one worker does, in threads and greenlets; `async_work` is the same for asyncio."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from time import perf_counter

from ..model import expect
from ..protocol import LocksSpec
from .calls import LockCalls
from .tally import INSIDE_SECONDS, LARGEST_VALUE, Tally

VALUE_KEY = "__TEST__"
#: Lets other workers run for so many seconds.
Pause = Callable[[float], None]


def ping(calls: LockCalls, count: int, tally: Tally) -> None:
    """Sends one command after another and reads the clock around each."""
    execute, seconds = calls.execute, tally.seconds
    for _ in range(count):
        start = perf_counter()
        execute("PING")
        seconds.append(perf_counter() - start)
        tally.count += 1


def cycle(calls: LockCalls, draws: Iterator[list[str]], tally: Tally) -> None:
    """Locks, counts, unlocks; reads the clock before each lock and within."""
    lock, seconds = calls.lock, tally.seconds
    for names in draws:
        start = perf_counter()
        with lock(names):
            seconds.append(perf_counter() - start)
            tally.count += 1


def check(calls: LockCalls, draws: Iterator[list[str]], pause: Pause, tally: Tally) -> None:
    """The same with time for others to come in where they must not."""
    for names in draws:
        with calls.lock(names):
            tally.enter()
            pause(INSIDE_SECONDS)
            tally.leave()


def work(calls: LockCalls, row: LocksSpec, delay: float, until: float, pause: Pause, tally: Tally) -> None:
    """The seed's second test: sleeps, locks, writes, increases, reads, deletes, unlocks, until the time has come."""
    source = random.Random(delay)
    lock, execute = calls.lock, calls.execute
    while perf_counter() < until:
        pause(delay)
        with lock(source.sample(row["names"], row["keys"])):
            tally.enter()
            value = source.randrange(LARGEST_VALUE)
            execute("SET", VALUE_KEY, str(value))
            execute("INCR", VALUE_KEY)
            expect(["GET", VALUE_KEY], int(execute("GET", VALUE_KEY)), value + 1)
            execute("DEL", VALUE_KEY)
            tally.leave()


def hold(calls: LockCalls, row: LocksSpec, tally: Tally) -> list[list[int]]:
    """Locks over and over; returns when each lock was asked for, was held, and was about to be released.

    Nanoseconds of the clock that all processes share, since the row's start.
    """
    lock, names, now = calls.lock, row["names"], time.monotonic_ns
    start = round(row["start"] * 1e9)
    until = start + round(row["seconds"] * 1e9)
    held: list[list[int]] = []
    time.sleep(max(0.0, row["start"] - time.monotonic()))
    while (asked := now()) < until:
        with lock(names):
            entered = now()
            tally.count += 1
            leaving = now()
        held.append([asked - start, entered - start, leaving - start])
    return held
