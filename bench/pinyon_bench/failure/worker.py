"""A working client in a separate process: `python -m pinyon_bench.failure.worker NUMBER SERVER…`.

Its orders are lines of JSON, and so are its answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any

from ..names import ASYNCIO, GEVENT, UVLOOP
from .clients import CONTENDERS, connect, connect_tasks

KEYS = [f"key:{number}" for number in range(400)]


def value_of(key: str) -> str:
    """Returns the value for a key."""
    return f"value of {key}"


class Record:
    """What the workers of a run saw."""

    def __init__(self, lost: list[str]) -> None:
        self._lost = frozenset(lost)
        #: The duration of each operation on a key of a healthy server, in seconds.
        self.others = array("d")
        #: When each operation on the other keys began and ended.
        self.lost: list[tuple[float, float]] = []
        #: The number of operations on keys of healthy servers that did not return their value.
        self.missed = 0

    def note(self, key: str, value: Any, begun: float) -> None:
        """Records a finished operation; raises ValueError for another key's value."""
        ended = perf_counter()
        if value is not None and value != value_of(key):
            raise ValueError(f"{key} came with {value!r}")
        if key in self._lost:
            self.lost.append((begun, ended))
            return
        self.others.append(ended - begun)
        self.missed += value is None

    def summary(self) -> dict[str, Any]:
        """Returns the record as it is sent."""
        return {"others": self.others.tolist(), "lost": self.lost, "missed": self.missed}


def draws(seed: int, until: float) -> Iterator[str]:
    """The keys to work on: random, but the same in every run."""
    chance = random.Random(seed)
    while perf_counter() < until:
        yield chance.choice(KEYS)


def work(get: Callable[[str], Any], store: Callable[[str, str], Any], seed: int, until: float, record: Record) -> None:
    """Reads, and stores what is missing; an exception counts as a miss."""
    for key in draws(seed, until):
        begun, value = perf_counter(), None
        with suppress(Exception):
            value = get(key)
        record.note(key, value, begun)
        if value is None:
            begun = perf_counter()
            with suppress(Exception):
                store(key, value_of(key))
            record.note(key, value_of(key), begun)


async def work_in_task(get: Any, store: Any, seed: int, until: float, record: Record) -> None:
    """The same with awaited calls."""
    for key in draws(seed, until):
        begun, value = perf_counter(), None
        with suppress(Exception):
            value = await get(key)
        record.note(key, value, begun)
        if value is None:
            begun = perf_counter()
            with suppress(Exception):
                await store(key, value_of(key))
            record.note(key, value_of(key), begun)


def orders() -> Iterator[tuple[list[str], float]]:
    """The runs to do: the lost keys and the seconds of each."""
    for line in sys.stdin:
        order = json.loads(line)
        yield order["lost"], order["seconds"]


def answer(summary: dict[str, Any]) -> None:
    print(json.dumps(summary), flush=True)


def main(number: int, servers: list[str]) -> None:
    """Carries out orders until there are no more."""
    logging.disable()
    contender = CONTENDERS[number]
    if contender.model == UVLOOP:
        import uvloop

        uvloop.run(_serve_tasks(number, servers))
    elif contender.model == ASYNCIO:
        asyncio.run(_serve_tasks(number, servers))
    else:
        _serve(number, servers)


def _serve(number: int, servers: list[str]) -> None:
    contender = CONTENDERS[number]
    if contender.model == GEVENT:
        from gevent import monkey

        monkey.patch_all()
    get, store = connect(contender, servers)
    for key in KEYS:
        store(key, value_of(key))
    answer({})
    for lost, seconds in orders():
        record, until = Record(lost), perf_counter() + seconds
        jobs = [
            threading.Thread(target=work, args=(get, store, seed, until, record)) for seed in range(contender.workers)
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        answer(record.summary())


async def _serve_tasks(number: int, servers: list[str]) -> None:
    contender = CONTENDERS[number]
    get, store = await connect_tasks(contender, servers)
    for key in KEYS:
        await store(key, value_of(key))
    answer({})
    for lost, seconds in orders():
        record, until = Record(lost), perf_counter() + seconds
        await asyncio.gather(*(work_in_task(get, store, seed, until, record) for seed in range(contender.workers)))
        answer(record.summary())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
