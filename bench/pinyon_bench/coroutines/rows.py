"""The rows of pairs: the seeds' workloads for coroutines, and the first of them for threads.

Seed 002 sets and gets 25,000 pairs of UUIDs, from blocking calls to 256 coroutines. Seed 003 sets and gets values of
three sizes, on a server nearby and over a slow link. `run` takes a few of the rows and few of the pairs, `record` all.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from ..declaration import Goals, Group, Row, goals_of
from ..goals import (
    at_least_row,
    at_most_system_calls,
    floor_share,
    never_falls,
    processor_at_most,
    processor_below_others,
)
from ..names import ASYNCIO, BLOCKING, GEVENT, PEER, UVLOOP
from ..protocol import Operation, Order, PairsSpec
from ..results import RowInfo
from ..step_rows import SIZES

Link = Literal["near", "slow"]
NEAR: Link = "near"
SLOW: Link = "slow"

SYNC = "sync"
OPERATIONS: tuple[Operation, Operation] = ("set", "get")
PAIRS = 25_000
PAIRS_CLOCKED = 5_000
PAIRS_SEED = 2
UUID_LENGTH = 32
PAIRS_CONCURRENCIES = (0, 1, 2, 4, 8, 16, 64, 256)
SIZES_CONCURRENCIES = (0, 1, 2, 4, 10, 100)
SIZES_ITERATIONS = 10_000
MOST_BYTES = 32 << 20

RUN_PAIRS = 2_500
RUN_PAIRS_CLOCKED = 500
RUN_PAIRS_CONCURRENCIES = (0, 1, 16, 64, 256)
RUN_SIZES = ("64B", "10KB")
RUN_SIZES_CONCURRENCIES = (0, 1, 100)
RUN_SIZES_ITERATIONS = 500
RUN_SLOW_ROUNDS = 2
#: There are many rows of pairs, and their cells are long.
RECORD_PAIRS_ROUNDS = 3

NEAR_CONNECTIONS = 2
SLOW_CONNECTIONS = 100
#: The pool's size in the configuration of clients with a pool.
POOL = f"{NEAR_CONNECTIONS} connections, {SLOW_CONNECTIONS} over the slow link"
WARM_UP = 200
#: How many round trips a timed cell over the slow link takes.
RUN_SLOW_TURNS, RECORD_SLOW_TURNS = 4, 10

#: A pool of the reference client's, for threads.
CLIENT_POOL = f"{PEER} ClientPool"
#: The number of coroutines in rows whose system calls are counted.
COUNTED_CONCURRENCY = 64


def _order(row: RowInfo) -> Any:
    """All sets, then all gets; by size, then by number of coroutines."""
    return OPERATIONS.index(row.operation), row.size, row.concurrency


def _uuid_group(model: str, *goals: Any, note: str = "") -> Group:
    return Group(
        model,
        f"{model}: pairs of UUIDs (seed 002)",
        prefix=1,
        labels="operation, coroutines",
        axis="concurrency",
        order=_order,
        note="sync: blocking calls, without coroutines." + note,
        goals=(*goals, processor_below_others),
    )


UUID_GROUPS = (
    _uuid_group(
        GEVENT,
        *(never_falls(operation) for operation in OPERATIONS),
        note=" pylibmc and libmc block gevent's hub, so their greenlets run one after another.",
    ),
    _uuid_group(ASYNCIO),
    _uuid_group(UVLOOP),
)
LOCAL = Group(
    "local",
    "Values by size, server nearby (seed 003)",
    prefix=1,
    labels="operation, size, coroutines",
    axis="concurrency",
    order=_order,
    note="sync: blocking calls, without coroutines.",
    goals=(processor_below_others,),
)
SLOW_LINK = replace(LOCAL, name="slow", title="Values by size, slow link (seed 003)")
#: Threads that share one blocking client, where others need a pool of clients.
THREADS = Group(
    "threads",
    "Threads of Python that share one client",
    ": operations per second, pairs of UUIDs",
    prefix=1,
    labels="operation, threads",
    axis="concurrency",
    order=_order,
    note="All threads of a process take turns to hold the GIL.",
)
#: The same where threads, or threads and server, may run at the same time.
THREADS_APART = replace(
    THREADS,
    name="threads:placement",
    title="Threads of Python that share one client, on two cores",
    labels="operation, threads and placement",
    axis="",
    note="two-cores: all threads on one core, the server on another. unpinned: threads and server on any core. "
    "All threads of a process take turns to hold the GIL.",
)
THREADS_CONCURRENCIES = (1, 8, 32)
#: Of these, gets are also measured in other placements: what one thread does, and what more of them add.
THREADS_APART_CONCURRENCIES = (1, 8)
PAIRS_GROUPS = (*UUID_GROUPS, THREADS, THREADS_APART, LOCAL, SLOW_LINK)
GOALS: Goals = {
    "gevent:*:1": (at_least_row(0.75, "*:sync", "of the blocking client", (GEVENT,)),),
    "gevent:*:16": (floor_share(0.45, GEVENT),),
    "gevent:*:64": (floor_share(0.5, GEVENT),),
    "asyncio:*:16": (floor_share(0.4, ASYNCIO),),
    "asyncio:*:64": (floor_share(0.5, ASYNCIO),),
    "uvloop:*:16": (floor_share(0.45, UVLOOP),),
    "uvloop:*:64": (floor_share(0.5, UVLOOP),),
    "threads:*:8": (at_least_row(0.9, "*:1", "of the rate of one thread"),),
    "threads:*:32": (at_least_row(0.8, "*:1", "of the rate of one thread"),),
    "threads:*": (processor_at_most(CLIENT_POOL),),
    "slow:*:64B:100": (at_least_row(95.0, "*:sync", "times the blocking client", (GEVENT, ASYNCIO)),),
    "slow:*:10KB:100": (at_least_row(75.0, "*:sync", "times the blocking client", (GEVENT, ASYNCIO)),),
    f"*:{COUNTED_CONCURRENCY}": (at_most_system_calls(0.1),),
}


@dataclass(frozen=True)
class PairsRow(Row):
    """The same operation for `count` pairs, by `concurrency` coroutines (0: blocking calls)."""

    operation: Operation = "set"
    order: Order = "chunks"
    link: Link = NEAR
    count: int = 0
    clocked: int = 0
    warmup: int = 0

    def info(self) -> RowInfo:
        return replace(super().info(), keys=self.count)

    def spec(self, server: str, count: int | None = None, passes: int = 1) -> PairsSpec:
        """Returns the row for the contestant, with its own number of pairs or another."""
        pairs = self.pairs(count or self.count)
        return {
            "name": self.name,
            "server": server,
            "operation": self.operation,
            "concurrency": self.concurrency,
            "order": self.order,
            "connections": SLOW_CONNECTIONS if self.link == SLOW else NEAR_CONNECTIONS,
            "length": 0 if self.order == "chunks" else self.size,
            "warmup": min(self.warmup, len(pairs)),
            "passes": passes,
            "clocked": min(self.clocked, len(pairs)),
            "pairs": pairs,
        }

    def pairs(self, count: int) -> list[list[str]]:
        """Returns the first pairs of key and text. All gets of seed 003 use its first key."""
        if self.order == "chunks":
            return uuid_pairs()[:count]
        if self.operation == "get":
            return [["key1", "x"]] * count
        return [[f"key{number}", "x"] for number in range(1, count + 1)]


@lru_cache(maxsize=1)
def uuid_pairs() -> list[list[str]]:
    """Returns the pairs of seed 002: distinct random UUIDs as 32 hexadecimal digits, the same every time."""
    source = random.Random(PAIRS_SEED)
    texts = [uuid.UUID(int=source.getrandbits(128), version=4).hex for _ in range(2 * PAIRS)]
    if len(set(texts)) != len(texts):
        raise ValueError("two of the UUIDs are the same")
    return [list(pair) for pair in zip(texts[::2], texts[1::2])]


def pairs_rows(short: bool) -> list[PairsRow]:
    """Returns all rows of pairs; `short` with the counts of `run`, otherwise with those of `record`."""
    seed_002 = [
        _uuid_row(model, operation, concurrency, short)
        for model in (GEVENT, ASYNCIO, UVLOOP)
        for concurrency in PAIRS_CONCURRENCIES
        for operation in OPERATIONS
        if concurrency or model == GEVENT
    ]
    seed_003 = [
        _size_row(group, operation, label, concurrency, short)
        for group in (LOCAL.name, SLOW_LINK.name)
        for concurrency in SIZES_CONCURRENCIES
        for label in SIZES
        for operation in OPERATIONS
    ]
    threads = [_threads_row(operation, many, short) for many in THREADS_CONCURRENCIES for operation in OPERATIONS]
    return [*seed_002, *threads, *seed_003]


def _threads_row(operation: Operation, many: int, short: bool) -> PairsRow:
    """Returns a row of seed 002 by threads: what one coroutine does there, a thread does here."""
    name = f"{THREADS.name}:{operation}:{many}"
    return replace(
        _uuid_row(GEVENT, operation, many, short),
        name=name,
        group=THREADS.name,
        about=f"{operation} of {PAIRS:,} pairs of UUIDs, {many} thread{'s' * (many > 1)} on one client",
        models=(BLOCKING,),
        in_run=True,
        also=("placement",) if operation == "get" and many in THREADS_APART_CONCURRENCIES else (),
        goals=goals_of(name, GOALS),
    )


def _uuid_row(model: str, operation: Operation, concurrency: int, short: bool) -> PairsRow:
    name = f"{model}:{operation}:{concurrency or SYNC}"
    return PairsRow(
        name=name,
        group=model,
        about=f"{operation} of {PAIRS:,} pairs of UUIDs, {_who(concurrency)} on one client",
        models=(model,) if concurrency else (BLOCKING,),
        operation=operation,
        size=UUID_LENGTH,
        concurrency=concurrency,
        in_run=concurrency in RUN_PAIRS_CONCURRENCIES,
        most_rounds=None if short else RECORD_PAIRS_ROUNDS,
        also=("system calls",) if concurrency == COUNTED_CONCURRENCY else (),
        goals=goals_of(name, GOALS),
        order="chunks",
        count=RUN_PAIRS if short else PAIRS,
        clocked=RUN_PAIRS_CLOCKED if short else PAIRS_CLOCKED,
        warmup=max(WARM_UP, 2 * concurrency),
    )


def _who(concurrency: int) -> str:
    return f"{concurrency} coroutine{'s' * (concurrency > 1)}" if concurrency else "blocking calls"


def _size_row(group: str, operation: Operation, label: str, concurrency: int, short: bool) -> PairsRow:
    row = size_row(operation, SIZES[label], concurrency, RUN_SIZES_ITERATIONS if short else SIZES_ITERATIONS)
    name = f"{group}:{operation}:{label}:{concurrency or SYNC}"
    in_run = label in RUN_SIZES and concurrency in RUN_SIZES_CONCURRENCIES
    row = replace(row, name=name, group=group, in_run=in_run, goals=goals_of(name, GOALS))
    return row if group == LOCAL.name else over_slow_link(row, short)


def size_row(operation: Operation, size: int, concurrency: int, iterations: int) -> PairsRow:
    """Returns a row of seed 003: sets of `key1` and up, or as many gets of `key1`.

    The seed's program starts a coroutine for each operation, and a semaphore limits how many work at a time. In
    Python, the semaphore alone takes longer than any client. So here only that many coroutines start, and each
    takes the next key.
    """
    count = max(1, min(iterations, MOST_BYTES // size))
    return PairsRow(
        name=f"local:{operation}:{size}:{concurrency or SYNC}",
        group=LOCAL.name,
        about=f"{operation} of {size:,} bytes, {_who(concurrency)}{' at a time' * bool(concurrency)}",
        models=(GEVENT, ASYNCIO) if concurrency else (BLOCKING,),
        operation=operation,
        size=size,
        concurrency=concurrency,
        most_rounds=RECORD_PAIRS_ROUNDS,
        order="shared",
        count=count,
        clocked=count // 5,
        warmup=WARM_UP,
    )


def over_slow_link(row: PairsRow, short: bool) -> PairsRow:
    """Returns the row over the slow link, with operations for a few round trips."""
    turns = RUN_SLOW_TURNS if short else RECORD_SLOW_TURNS
    return replace(
        row,
        about=f"{row.about}, over the slow link",
        link=SLOW,
        count=max(1, min(turns * max(row.concurrency, 1), MOST_BYTES // row.size)),
        clocked=row.concurrency,
        warmup=max(1, row.concurrency),
        most_rounds=RUN_SLOW_ROUNDS if short else RECORD_PAIRS_ROUNDS,
    )
