"""The rows of Perl's clients: those of blocking calls, and those of seed 003, whose program is in Perl.

Rows of blocking calls do the same work as the rows whose names they have after `perl:`. Those of seed 003 have two
shapes. In `loops` a number of coroutines, or chains of callbacks, each take the next key. With a `semaphore` every
operation has a coroutine of its own, as in the seed's program: all start at once, and the semaphore lets a number of
them work at a time.
"""

from __future__ import annotations

from dataclasses import replace

from ..coroutines.rows import (
    OPERATIONS,
    RECORD_PAIRS_ROUNDS,
    RUN_SIZES_ITERATIONS,
    SIZES_ITERATIONS,
    SYNC,
    PairsRow,
    over_slow_link,
    size_row,
)
from ..declaration import Goals, Group, Row, goals_of
from ..goals import at_least_row, at_most_system_calls, exactly_system_calls, floor_share, processor_at_most
from ..names import ANYEVENT, CALLBACKS, CORO, FAST, FUTURE, OURS, PERL
from ..protocol import Operation
from ..results import RowInfo
from ..step_rows import MULTIGET, SEED, SIZE, SIZES, StepRow, step_rows, wide_key

PREFIX = PERL
#: Pinyon with the interface of Cache::Memcached::Fast.
SHIM = f"{OURS} shim"
LOOPS, SEMAPHORE = SHAPES = ("loops", "semaphore")
LOCAL, SLOW = LINKS = ("local", "slow")
LOOPS_CONCURRENCIES = (0, 1, 16, 100)
#: Seed 003 shows its figures with 4 and with 100.
SEMAPHORE_CONCURRENCIES = (1, 4, 100)
RUN_CONCURRENCIES = (0, 1, 100)
RUN_ROUNDS = 3
#: The rows of blocking calls that `run` takes.
RUN_STEPS = {
    *("set:plain", "setq:plain", "get:plain", "multiget", "mixed", "incr"),
    *("set:64B", "get:64B", "set:100KB", "get:100KB"),
    *("multiget:100:1", "multiset:100:1"),
}
#: And those of seed 003, by shape and link: the size of their values, and their numbers of coroutines.
RUN_PAIRS: dict[tuple[str, str], tuple[str, tuple[int, ...]]] = {
    (LOOPS, LOCAL): ("64B", RUN_CONCURRENCIES),
    (LOOPS, SLOW): ("64B", RUN_CONCURRENCIES),
    (SEMAPHORE, LOCAL): ("64B", (100,)),
    (SEMAPHORE, SLOW): ("64B", ()),
}
MULTISET_KEYS = 100
#: The rows of blocking calls whose system calls are counted.
COUNTED_STEPS = ("set:64B", "get:64B", "multiget:100:1", f"multiset:{MULTISET_KEYS}:1")


def _order(row: RowInfo) -> tuple[int, int, int]:
    return OPERATIONS.index(row.operation), row.size, row.concurrency


def _steps_group(name: str, title: str, counted: str) -> Group:
    return Group(f"{PREFIX}:{name}", f"Perl: {title}", counted, 1, axis="size" if name == SIZE.name else "")


def _pairs_group(shape: str, link: str, title: str) -> Group:
    where = "server nearby" if link == LOCAL else "slow link"
    return Group(
        f"{PREFIX}:{shape}:{link}",
        f"Perl: {title}, {where} (seed 003)",
        prefix=3,
        labels="operation, size, coroutines",
        axis="concurrency",
        order=_order,
        note="sync: blocking calls, without coroutines."
        if shape == LOOPS
        else "Every operation has a coroutine of its own, and a semaphore lets so many work at a time.",
    )


STEP_GROUPS = (
    _steps_group(SEED.name, "Dalli's ten rows (seeds 000 and 001)", SEED.counted),
    _steps_group(SIZE.name, "get and set by value size", SIZE.counted),
    _steps_group(MULTIGET.name, "many keys in one call", MULTIGET.counted),
)
PAIRS_GROUPS = {
    (shape, link): _pairs_group(shape, link, title)
    for shape, title in ((LOOPS, "coroutines in loops"), (SEMAPHORE, "coroutines behind a semaphore"))
    for link in LINKS
}
PERL_GROUPS = (*STEP_GROUPS, *PAIRS_GROUPS.values())
GOALS: Goals = {
    "perl:[gs]et:64B": (floor_share(0.92, PERL), processor_at_most(FAST, PERL), exactly_system_calls(2)),
    "perl:get:100KB": (floor_share(0.75, PERL),),
    "perl:multiget:100:1": (floor_share(0.65, PERL), processor_at_most(FAST, PERL)),
    "perl:multiset:100:1": (floor_share(0.55, PERL), processor_at_most(FAST, PERL)),
    # Both send each command at once.
    "perl:setq:plain": (processor_at_most(FAST, PERL, SHIM),),
    "perl:loops:local:*:64B:100": (
        floor_share(0.2, CORO),
        floor_share(0.25, ANYEVENT),
        processor_at_most(CALLBACKS, ANYEVENT),
        at_most_system_calls(0.03, CORO, 2),
    ),
    "perl:loops:slow:*:64B:100": (at_least_row(95.0, "*:1", "times one coroutine", (CORO,), CORO),),
}


def perl_rows(short: bool) -> list[Row]:
    """Returns Perl's rows of caches; `short` with the counts of `run`, otherwise with those of `record`."""
    groups = {group.name.removeprefix(f"{PREFIX}:"): group for group in STEP_GROUPS}
    steps = [_of_steps(row, groups[row.group], short) for row in (*step_rows(), multiset_row()) if row.group in groups]
    loops = [
        _of_pairs(LOOPS, link, operation, label, many, short)
        for link in LINKS
        for many in LOOPS_CONCURRENCIES
        for label in SIZES
        for operation in OPERATIONS
    ]
    semaphores = [
        _of_pairs(SEMAPHORE, link, operation, label, many, short)
        for link in LINKS
        for many in SEMAPHORE_CONCURRENCIES
        for label in SIZES
        for operation in OPERATIONS
    ]
    return [*steps, *loops, *semaphores]


def multiset_row() -> StepRow:
    """Returns the row of one call that stores many keys. Python's and Ruby's clients have others for it."""
    keys = [wide_key(number) for number in range(MULTISET_KEYS)]
    return StepRow(
        name=f"multiset:{MULTISET_KEYS}:1",
        group=MULTIGET.name,
        about=f"one call that sets {MULTISET_KEYS} keys of 36 bytes on 1 server",
        unit="keys",
        keys=MULTISET_KEYS,
        steps=[["set_many", [[key, key[::-1]] for key in keys]]],
        operations=MULTISET_KEYS,
    )


def _of_steps(row: StepRow, group: Group, short: bool) -> StepRow:
    name = f"{PREFIX}:{row.name}"
    return replace(
        row,
        name=name,
        group=group.name,
        about=row.about.replace("pickles", "serializes"),
        models=(PERL,),
        in_run=row.name in RUN_STEPS,
        most_rounds=RUN_ROUNDS if short else None,
        also=("system calls",) if row.name in COUNTED_STEPS else (),
        goals=goals_of(name, GOALS),
    )


def _of_pairs(shape: str, link: str, operation: Operation, label: str, many: int, short: bool) -> PairsRow:
    name = f"{PREFIX}:{shape}:{link}:{operation}:{label}:{many or SYNC}"
    size, concurrencies = RUN_PAIRS[shape, link]
    row = pairs_row(shape, operation, SIZES[label], many, RUN_SIZES_ITERATIONS if short else SIZES_ITERATIONS)
    if link == SLOW:
        row = over_slow_link(row, short)
    return replace(
        row,
        name=name,
        group=PAIRS_GROUPS[shape, link].name,
        in_run=label == size and many in concurrencies,
        most_rounds=min(row.most_rounds or RUN_ROUNDS, RUN_ROUNDS) if short else RECORD_PAIRS_ROUNDS,
        also=("system calls",) if (shape, link, label) == (LOOPS, LOCAL, "64B") and many in (1, 100) else (),
        goals=goals_of(name, GOALS),
    )


def pairs_row(shape: str, operation: Operation, size: int, many: int, iterations: int) -> PairsRow:
    """Returns a row of seed 003 in one of its shapes. The seed's own has as many coroutines as operations, always."""
    if shape == LOOPS:
        row = size_row(operation, size, many, iterations)
        return replace(row, models=(CORO, ANYEVENT, FUTURE) if many else (PERL,))
    row = size_row(operation, size, many, SIZES_ITERATIONS)
    each = f"each {operation} in a coroutine of its own, {many} at a time by a semaphore"
    about = f"{row.count:,} operations, {size:,} bytes, {each}"
    return replace(row, about=about, models=(CORO,), order="semaphore", clocked=many)
