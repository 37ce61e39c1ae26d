"""A made-up result document that has every group of rows, and parts of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from pinyon_bench.locks.rows import lock_rows
from pinyon_bench.names import ANYEVENT, CALLBACKS, CORO, FAST, FLOOR, OURS, PERL
from pinyon_bench.perl.rows import SHIM, perl_rows
from pinyon_bench.results import ContestantInfo, Document, Handovers, Latency, Machine, RowInfo, Sample, ServerWork
from pinyon_bench.step_rows import step_rows

ROUNDS = 3
CONCURRENCIES = (0, 1, 16, 64, 256)
SIZES = {"36B": 36, "64B": 64, "10KB": 10_240, "100KB": 102_400}
# Microseconds of one blocking call, and those that a coroutine library adds to it.
COSTS = {
    "Pinyon": 17.0,
    "pylibmc": 18.2,
    "pymemcache": 22.0,
    "python-memcached": 25.0,
    "libmc": 19.5,
    "meta-memcache": 23.0,
    "floor": 16.2,
}

DRIVEN = {
    "gevent": ("Pinyon", "pylibmc", "pymemcache", "libmc"),
    "asyncio": ("Pinyon", "emcache", "emcache autobatch", "aiomcache", "memcachio"),
}
DRIVEN["uvloop"] = DRIVEN["asyncio"]
# Microseconds of locking and unlocking one key, and how many commands each key takes; none: one command for all of them.
LOCKING = {
    "Pinyon script": (45.0, 0),
    "Pinyon pure": (70.0, 0),
    "redis-py": (160.0, 2),
    "python-redis-lock": (190.0, 3),
    "redlock-py": (150.0, 2),
    "pottery": (620.0, 2),
    "aioredlock": (230.0, 2),
    "coredis": (500.0, 2),
}
LOCKING_IN = {
    "": ("Pinyon script", "Pinyon pure", "redis-py", "python-redis-lock", "redlock-py", "pottery"),
    " gevent": ("Pinyon script", "Pinyon pure", "redis-py", "python-redis-lock"),
    " asyncio": ("Pinyon script", "Pinyon pure", "redis-py", "aioredlock", "coredis"),
}


def coroutine_rows() -> list[RowInfo]:
    return [
        RowInfo(f"{group}:{operation}:{many or 'sync'}", group, "operations", f"{many} at once", operation, 32, many)
        for group in DRIVEN
        for operation in ("set", "get")
        for many in CONCURRENCIES
        if many or group == "gevent"
    ]


def slow_rows() -> list[RowInfo]:
    return [
        RowInfo(f"{group}:{operation}:{label}:{many or 'sync'}", group, "operations", "", operation, SIZES[label], many)
        for group in ("local", "slow")
        for operation in ("set", "get")
        for label in ("64B", "10KB", "100KB")
        for many in (0, 1, 100)
        if group == "local" or label != "100KB"
    ]


def blocking_rows() -> list[RowInfo]:
    wanted = ("set:plain", *(f"{do}:{label}" for label in SIZES for do in ("set", "get")))
    many = [f"multiget:{keys}:{servers}" for servers in (1, 4) for keys in (1, 10, 100, 1000)]
    return [row.info() for row in step_rows() if row.name in (*wanted, *many)]


def contestants_of(row: RowInfo) -> list[str]:
    if row.group in DRIVEN:
        return [f"{name} {row.group}" if row.concurrency else name for name in DRIVEN[row.group]] + ["floor"]
    if row.group in ("local", "slow"):
        driven = ["Pinyon gevent", "pymemcache gevent", "Pinyon asyncio", "emcache asyncio", "aiomcache asyncio"]
        return driven if row.concurrency else ["Pinyon", "pylibmc"]
    return list(COSTS)


def seconds(row: RowInfo, contestant: str) -> float:
    """Made-up seconds of one operation: the client's cost, what waiting adds, and what the coroutine library adds."""
    cost = COSTS.get(contestant.split()[0], 40.0 + 3 * len(contestant))
    cost += (row.size or 36) / 8000 * cost / 16
    if row.group == "multiget":
        return (16.0 / row.keys + (cost - 15.8) / 10) / 1e6
    if row.group in DRIVEN and row.concurrency:
        batched = contestant.startswith(("Pinyon", "floor"))
        cost = cost * (0.2 if batched else 1) + 40 / row.concurrency + (0 if row.group == "gevent" else 5)
    waiting = 40_000 / max(row.concurrency, 1) if row.group == "slow" else 0
    return (cost + waiting) / 1e6


def lockers_of(row: RowInfo) -> list[str]:
    everybody = [f"{name}{model}" for model, names in LOCKING_IN.items() for name in names]
    if row.operation == "pipelined":
        return ["floor"]
    if row.operation in ("ping", "handover"):
        return [*LOCKING_IN[""], *(["floor"] if row.operation == "ping" else [])]
    return [*everybody, "floor"] if row.operation == "pair" else everybody


def lock_samples(row: RowInfo, chance: random.Random) -> Iterator[Sample]:
    for number in range(1, ROUNDS + 1):
        for contestant in lockers_of(row):
            cost, commands = LOCKING.get(contestant.removesuffix(" gevent").removesuffix(" asyncio"), (38.0, 0))
            keys = max(row.keys, 1)
            each = (cost * (keys if commands else 1 + keys / 9) * chance.lognormvariate(0, 0.03)) / 1e6
            if row.operation == "ping":
                each /= 2
            middle = each * (row.concurrency if commands else 1)
            if row.operation == "section":
                each += 1e-4
            latency = Latency(middle * 1.1, middle, middle * (30 if commands else 2.5), middle * 60)
            times = (each * 1000, each * 300, each * 250)
            yield Sample(number, row.name, contestant, 1000, *times, latency)


def work_of(sample: Sample, keys: int) -> ServerWork:
    commands = LOCKING.get(sample.contestant.removesuffix(" gevent").removesuffix(" asyncio"), (0, 0))[1]
    calls = {"evalsha": 1000 * (commands * keys or 2), "publish": 1000}
    sent = {"evalsha": float(calls["evalsha"])}
    cell = (sample.round, sample.row, sample.contestant)
    return ServerWork(*cell, 1000, calls, sent, 4.5 * calls["evalsha"], calls["evalsha"])


def samples_of(row: RowInfo, chance: random.Random) -> Iterator[Sample]:
    for number in range(1, ROUNDS + 1):
        for contestant in contestants_of(row):
            each = seconds(row, contestant) * chance.lognormvariate(0, 0.03)
            operations = 2000
            busy = min(each, 60e-6) * operations
            latency = None
            if row.concurrency:
                middle = each * row.concurrency
                latency = Latency(middle * 1.1, middle, middle * chance.uniform(1.8, 3.2), middle * 9)
            yield Sample(number, row.name, contestant, operations, each * operations, busy * 0.3, busy * 0.35, latency)


def full_document() -> Document:
    """A document with every group of rows, in which Pinyon is the first of the contestants."""
    rows = [*blocking_rows(), *coroutine_rows(), *slow_rows()]
    chance = random.Random(3)
    names = list(dict.fromkeys(name for row in rows for name in contestants_of(row)))
    locking = [row.info() for row in lock_rows(short=False)]
    lock_names = [name for row in locking for name in lockers_of(row)]
    samples = [sample for row in rows for sample in samples_of(row, chance)]
    locked = [sample for row in locking for sample in lock_samples(row, chance)]
    keys = {row.name: max(row.keys, 1) for row in locking}
    names = list(dict.fromkeys([*names, *lock_names]))
    return Document(
        created="2026-01-01 00:00:00 +0000",
        command="python -m pinyon_bench run",
        placement="same-core",
        rounds=ROUNDS,
        machine=Machine("A Processor", 2, "Linux 6", "Debian"),
        versions={"memcached": "1.6.18", "Python": "3.11"},
        contestants=[ContestantInfo(name, "1.0", "defaults") for name in names],
        rows=[*rows, *locking],
        samples=[*samples, *locked],
        server_work=[work_of(sample, keys[sample.row]) for sample in locked],
        handovers=[
            Handovers(sample.round, sample.row, sample.contestant, 1000, 990)
            for sample in locked
            if sample.row == "locks:handover:8"
        ],
    )


def perl_document() -> Document:
    """A document that has Perl's rows, and locks in its and in Ruby's models."""
    document = full_document()
    near = [row.info() for row in perl_rows(short=False)]
    locked = next(row for row in document.rows if row.name == "locks:pair:1")
    clients = [(name, each) for name in (OURS, SHIM, FAST, CALLBACKS) for each in (PERL, CORO, ANYEVENT)]
    names = [FLOOR, *(f"{name} {model}" for name, model in clients)]
    cells = [(row.name, name, row.size / 1e9) for row in near for name in names]
    cells += [(locked.name, f"Pinyon script {each}", 0.0) for each in (PERL, "ruby")]
    samples = [
        Sample(each, row, name, 1000, (1e-5 + more) * 1000, 0.003, 0.004)
        for row, name, more in cells
        for each in range(1, ROUNDS + 1)
    ]
    present = dict.fromkeys([*(info.name for info in document.contestants), *(name for _, name, _ in cells)])
    return replace(
        document,
        contestants=[ContestantInfo(name, "1.0", "defaults") for name in present],
        rows=[*document.rows, *near],
        samples=[*document.samples, *samples],
    )


def narrowed(document: Document, *groups: str) -> Document:
    """The document without the other groups of rows."""
    rows = [row for row in document.rows if row.group in groups]
    names = {row.name for row in rows}
    return replace(document, rows=rows, samples=[sample for sample in document.samples if sample.row in names])
