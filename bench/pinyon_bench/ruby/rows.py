"""The rows of Ruby's clients: those of blocking calls, threads that share a client, and fibers that do.

They do the same work as the rows whose names they have after `ruby:`. Ruby's contestants also take part in rows of
locks.
"""

from __future__ import annotations

from dataclasses import replace

from ..coroutines.rows import (
    COUNTED_CONCURRENCY,
    OPERATIONS,
    PAIRS,
    PAIRS_CLOCKED,
    RECORD_PAIRS_ROUNDS,
    RUN_PAIRS,
    RUN_PAIRS_CLOCKED,
    UUID_LENGTH,
    WARM_UP,
    PairsRow,
)
from ..declaration import Axis, Goals, Group, Row, goals_of
from ..goals import (
    at_least_row,
    at_most_system_calls,
    exactly_system_calls,
    floor_share,
    processor_at_most,
    user_time_at_most,
)
from ..names import ASYNC, DALLI, EVENTMACHINE, RUBY
from ..protocol import Operation
from ..step_rows import MULTIGET, SEED, SIZE, StepRow, step_rows

PREFIX = RUBY
FIBERS = (1, 4, 16, 64)
RUN_FIBERS = (1, 16, 64)
THREADS = (1, 8)
#: The rows of multi-gets that `run` takes.
RUN_MULTIGETS = ("multiget:1:1", "multiget:10:1", "multiget:100:1", "multiget:1000:1", "multiget:100:4")


def _group(name: str, title: str, counted: str, labels: str = "row", prefix: int = 1, axis: Axis = "") -> Group:
    return Group(f"{PREFIX}:{name}", f"Ruby: {title}", counted, prefix, labels, axis)


STEP_GROUPS = (
    _group(SEED.name, "Dalli's ten rows (seeds 000 and 001)", SEED.counted),
    _group(SIZE.name, "get and set by value size", SIZE.counted, axis=SIZE.axis),
    _group(MULTIGET.name, "multi-get by keys and servers", MULTIGET.counted, "keys, servers", 2, MULTIGET.axis),
)
#: What the rates of threads and fibers count.
UUIDS = ": operations per second, pairs of UUIDs"
THREADS_GROUP = _group("threads", "threads that share one client", UUIDS, "operation, threads", 2, "concurrency")
FIBERS_GROUPS = {
    ASYNC: _group(ASYNC, "fibers in async that share one client", UUIDS, "operation, fibers", 2, "concurrency"),
    EVENTMACHINE: _group(
        EVENTMACHINE, "fibers in EventMachine that share one client", UUIDS, "operation, fibers", 2, "concurrency"
    ),
}
RUBY_GROUPS = (*STEP_GROUPS, THREADS_GROUP, *FIBERS_GROUPS.values())
GOALS: Goals = {
    "ruby:[gs]et:36B": (
        floor_share(0.92, RUBY),
        user_time_at_most(1 / 3, "a third of", DALLI, RUBY),
        exactly_system_calls(2),
    ),
    "ruby:multiget:100:1": (floor_share(0.45, RUBY), processor_at_most(DALLI, RUBY)),
    "ruby:threads:?et:8": (at_least_row(0.95, "ruby:threads:get:1", "times the rate of one thread", (RUBY,), RUBY),),
    **{
        f"ruby:{model}:*:{fibers}": (floor_share(wanted, model), processor_at_most(DALLI, model), *more)
        for model, fibers, wanted, *more in (
            (ASYNC, 16, 0.25),
            (ASYNC, 64, 0.3, at_most_system_calls(0.1)),
            (EVENTMACHINE, 16, 0.3),
            (EVENTMACHINE, 64, 0.35, at_most_system_calls(0.1)),
        )
    },
}


def ruby_rows(short: bool) -> list[Row]:
    """Returns Ruby's rows of caches; `short` with the counts of `run`, otherwise with those of `record`."""
    groups = {group.name.removeprefix(f"{PREFIX}:"): group for group in STEP_GROUPS}
    steps = [_of_steps(row, groups[row.group]) for row in step_rows() if row.group in groups]
    threads = [
        _of_pairs(THREADS_GROUP, RUBY, operation, many, "thread", short) for many in THREADS for operation in OPERATIONS
    ]
    fibers = [
        _of_pairs(group, model, operation, many, "fiber", short)
        for model, group in FIBERS_GROUPS.items()
        for many in FIBERS
        for operation in OPERATIONS
    ]
    return [*steps, *threads, *fibers]


def _of_steps(row: StepRow, group: Group) -> StepRow:
    name = f"{PREFIX}:{row.name}"
    return replace(
        row,
        name=name,
        group=group.name,
        about=row.about.replace("pickles", "marshals"),
        models=(RUBY,),
        in_run=row.group != MULTIGET.name or row.name in RUN_MULTIGETS,
        also=("system calls",) if "system calls" in row.also else (),
        goals=goals_of(name, GOALS),
    )


def _of_pairs(group: Group, model: str, operation: Operation, many: int, who: str, short: bool) -> PairsRow:
    name = f"{group.name}:{operation}:{many}"
    return PairsRow(
        name=name,
        group=group.name,
        about=f"{operation} of {PAIRS:,} pairs of UUIDs, {many} {who}{'s' * (many > 1)} on one client",
        models=(model,),
        operation=operation,
        size=UUID_LENGTH,
        concurrency=many,
        in_run=who == "thread" or many in RUN_FIBERS,
        most_rounds=None if short else RECORD_PAIRS_ROUNDS,
        also=("system calls",) if many == COUNTED_CONCURRENCY else (),
        goals=goals_of(name, GOALS),
        count=RUN_PAIRS if short else PAIRS,
        clocked=RUN_PAIRS_CLOCKED if short else PAIRS_CLOCKED,
        warmup=max(WARM_UP, 2 * many),
    )
