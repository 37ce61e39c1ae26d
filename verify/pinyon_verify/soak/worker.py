"""One worker: random operations on its own keys and on shared ones; every outcome is recorded and judged."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pinyon

from .ledger import Ledger, value_of

#: Seconds that an operation may take. Every fault but the shortest pauses lasts longer.
TIMEOUT = 0.5
#: The number of keys that only one worker writes, and of keys that all write.
OWN_KEYS, SHARED_KEYS = 4, 16
#: A counter is its worker's number times this, plus what was added.
COUNTER = 10**12

#: The errors that a fault may cause.
EXPECTED = (pinyon.Timeout, pinyon.ConnectError, pinyon.ConnectionLost, pinyon.ServerDown)

OPERATIONS = {
    "get": 30,
    "gets": 4,
    "get_many": 10,
    "set": 20,
    "add": 4,
    "cas": 8,
    "delete": 4,
    "incr": 6,
    "touch": 4,
    "set_many": 3,
    "batch": 3,
}


@dataclass
class Record:
    """The findings of a process's workers."""

    operations: int = 0
    hits: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    slowest: float = 0.0


@dataclass
class Tribe:
    """The workers of one client, who know each other's keys."""

    name: str
    client: Any
    ledger: Ledger
    numbers: range

    def keys_of(self, worker: int) -> list[str]:
        return [f"{self.name}:{worker}:{number}" for number in range(OWN_KEYS)]

    def shared_keys(self) -> list[str]:
        return [f"{self.name}:shared:{number}" for number in range(SHARED_KEYS)]


class Worker:
    """Uses its tribe's client until time is up."""

    def __init__(self, number: int, tribe: Tribe, record: Record, seed: str, until: float) -> None:
        self.number = number
        self.tribe = tribe
        self.client = tribe.client
        self.ledger = tribe.ledger
        self.record = record
        self.random = random.Random(f"{seed}:{number}")
        self.until = until
        self.written = [*tribe.keys_of(number), *tribe.shared_keys()]
        self.read = [key for worker in tribe.numbers for key in tribe.keys_of(worker)] + tribe.shared_keys()
        self.counted = 0
        #: The current operation and its start; None between operations.
        self.busy: tuple[str, float] | None = None

    async def work(self, sleep: Any) -> None:
        names, weights = list(OPERATIONS), list(OPERATIONS.values())
        while time.monotonic() < self.until:
            (name,) = self.random.choices(names, weights)
            begun = time.monotonic()
            self.busy = name, begun
            try:
                await getattr(self, f"_{name}")()
            except EXPECTED as error:
                self.record.errors[type(error).__name__] += 1
            except pinyon.BatchError as error:
                self._judge_batch(error)
            except Exception as error:
                self.record.findings.append(f"error: {name} raised {error!r}")
            self.busy = None
            self.record.operations += 1
            self.record.slowest = max(self.record.slowest, time.monotonic() - begun)
            # A server that is down fails at once; without a pause, nothing else would happen.
            await sleep(0.001 if self.record.operations % 16 else 0.01)

    def _judge_batch(self, error: pinyon.BatchError) -> None:
        self.record.errors["BatchError"] += 1
        for failure in error.failures:
            if failure.error is not None and not isinstance(failure.error, EXPECTED):
                self.record.findings.append(f"error: a batch failed by {failure.error!r}")

    def _saw(self, key: str, value: object, mark: int) -> None:
        if value is None:
            return
        self.record.hits += 1
        if wrong := self.ledger.judge(key, value, mark):
            self.record.findings.append(wrong)

    async def _get(self) -> None:
        key = self.random.choice(self.read)
        mark = self.ledger.mark(key)
        self._saw(key, await self.client.get(key), mark)

    async def _gets(self) -> None:
        key = self.random.choice(self.read)
        mark = self.ledger.mark(key)
        found = await self.client.gets(key)
        self._saw(key, found and found[0], mark)

    async def _get_many(self) -> None:
        keys = self.random.sample(self.read, 30)
        marks = {key: self.ledger.mark(key) for key in keys}
        try:
            found = await self.client.get_many(keys)
        except EXPECTED as error:
            found = error.partial or {}
            self.record.errors[type(error).__name__] += 1
        for key, value in found.items():
            if key in marks:
                self._saw(key, value, marks[key])
            else:
                self.record.findings.append(f"identity: get_many returned {key!r}, which was not asked for")

    async def _write(self, key: str, write: Any) -> None:
        """Writes with ``write(generation)``, which returns whether the server stored."""
        generation = self.ledger.begin(key)
        try:
            done = await write(generation)
        except EXPECTED as error:
            if error.sent == "no":
                self.ledger.refuse(key, generation, repr(error))
            raise
        if done:
            self.ledger.acknowledge(key, generation)
        else:
            self.ledger.refuse(key, generation, "by the server")

    async def _set(self) -> None:
        key = self.random.choice(self.written)
        await self._write(key, lambda generation: self.client.set(key, value_of(key, generation)))

    async def _add(self) -> None:
        key = self.random.choice(self.written)
        await self._write(key, lambda generation: self.client.add(key, value_of(key, generation)))

    async def _cas(self) -> None:
        key = self.random.choice(self.written)
        mark = self.ledger.mark(key)
        found = await self.client.gets(key)
        if found:
            self._saw(key, found[0], mark)
            await self._write(key, lambda generation: self.client.cas(key, value_of(key, generation), found[1]))

    async def _delete(self) -> None:
        key = self.random.choice(self.written)

        async def delete(_: int) -> bool:
            await self.client.delete(key)
            return True  # deleted, or not there: gone in either case

        await self._write(key, delete)

    async def _incr(self) -> None:
        key, base = f"{self.tribe.name}:{self.number}:counter", self.number * COUNTER
        self.counted += 1
        count = await self.client.incr(key, initial=base)
        if not base <= count <= base + self.counted:
            self.record.findings.append(f"counter: {key!r} is {count}; {self.counted} were added to {base}")

    async def _touch(self) -> None:
        await self.client.touch(self.random.choice(self.read), 3600)

    async def _set_many(self) -> None:
        async def store(values: dict[str, str]) -> set[str]:
            return set(await self.client.set_many(values))

        await self._write_many(store)

    async def _batch(self) -> None:
        async def store(values: dict[str, str]) -> set[str]:
            async with self.client.quiet() as batch:
                for key, value in values.items():
                    await batch.set(key, value)
            return set()

        await self._write_many(store)

    async def _write_many(self, store: Any) -> None:
        """Writes all own keys with ``store(values)``, which returns the keys not stored; after an error all are in doubt."""
        generations = {key: self.ledger.begin(key) for key in self.tribe.keys_of(self.number)}
        refused = await store({key: value_of(key, generation) for key, generation in generations.items()})
        for key, generation in generations.items():
            if key in refused:
                self.ledger.refuse(key, generation, "by the server, with others")
            else:
                self.ledger.acknowledge(key, generation)
