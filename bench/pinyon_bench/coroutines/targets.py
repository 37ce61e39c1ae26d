"""What Pinyon must reach in coroutines, each target with the measured figure."""

from __future__ import annotations

from collections.abc import Iterator

from ..compare import Ratio, processor_time, processor_times, rate, rate_ratio, rates, ratio
from ..contestant import FLOOR, contestant_name
from ..goals import OURS, Target, at_least, spread_of
from ..grids import participants
from ..results import Document
from .grids import GROUP_TITLES
from .models import ASYNCIO, GEVENT, UVLOOP
from .rows import OPERATIONS

PEER = "pylibmc"
BATCHING = "emcache autobatch"
GEVENT_16_TO_PEER = 6.5
GEVENT_16_TO_BEST = 6.0
GEVENT_64_TO_PEER = 9.0
GEVENT_1_TO_BLOCKING = 0.75
ASYNCIO_GET_TO_BATCHING = 2.0
ASYNCIO_GET_TO_OTHERS = 10.0
ASYNCIO_SET_TO_ALL = 10.0
UVLOOP_GET_TO_BATCHING = 1.8
UVLOOP_SET_TO_ALL = 8.0
SLOW_TO_BLOCKING = {"64B": 95.0, "10KB": 75.0}
SLOW_CONCURRENCY = 100
SYSCALLS_PER_OPERATION = 0.1
#: A step down to less than this has fallen, however far the rounds are apart.
FALLEN = 0.95


def pairs_targets(document: Document) -> Iterator[Target]:
    """Gives every target in coroutines that the document has the figures for."""
    yield from _gevent(document)
    yield from _event_loops(document)
    yield from _slow(document)
    yield from _syscalls(document)
    for group in GROUP_TITLES:
        yield from _processor(document, group)


def _gevent(document: Document) -> Iterator[Target]:
    ours, peer = contestant_name(OURS, GEVENT), contestant_name(PEER, GEVENT)
    for operation in OPERATIONS:
        row = f"gevent:{operation}:16"
        yield from at_least(row, f"times {PEER}", rate_ratio(document, row, ours, peer), GEVENT_16_TO_PEER)
        yield from _against_best(document, row, ours, GEVENT_16_TO_BEST)
    for operation in OPERATIONS:
        row = f"gevent:{operation}:64"
        yield from at_least(row, f"times {PEER}", rate_ratio(document, row, ours, peer), GEVENT_64_TO_PEER)
    for operation in OPERATIONS:
        row = f"gevent:{operation}:1"
        found = ratio(rates(document, row, ours), rates(document, f"gevent:{operation}:sync", OURS))
        yield from at_least(row, "of the blocking client", found, GEVENT_1_TO_BLOCKING)
    for operation in OPERATIONS:
        yield from _never_falls(document, operation, ours)


def _never_falls(document: Document, operation: str, ours: str) -> Iterator[Target]:
    """The rate may not fall from one number of greenlets to the next, by more than noise, nor by much."""
    rows = [row for row in document.rows_of(GEVENT) if row.operation == operation and row.concurrency]
    rows.sort(key=lambda row: row.concurrency)
    steps = [
        (found, f"{fewer.concurrency} to {more.concurrency}")
        for fewer, more in zip(rows, rows[1:])
        if (found := ratio(rates(document, more.name, ours), rates(document, fewer.name, ours)))
    ]
    if steps:
        worst, where = min(steps, key=lambda step: step[0].middle)
        text = f"gevent:{operation}: never slower with more greenlets; least from {where}"
        met = all(found.middle >= 1 or (found.same and found.middle >= FALLEN) for found, _ in steps)
        yield Target(text, f"{worst.middle:.3f}", met, spread_of(worst))


def _event_loops(document: Document) -> Iterator[Target]:
    for model, to_batching in ((ASYNCIO, ASYNCIO_GET_TO_BATCHING), (UVLOOP, UVLOOP_GET_TO_BATCHING)):
        ours, batching = contestant_name(OURS, model), contestant_name(BATCHING, model)
        row = f"{model}:get:16"
        yield from at_least(row, f"times {BATCHING}", rate_ratio(document, row, ours, batching), to_batching)
        if model == ASYNCIO:
            yield from _against_best(document, row, ours, ASYNCIO_GET_TO_OTHERS, (batching,))
        to_all = ASYNCIO_SET_TO_ALL if model == ASYNCIO else UVLOOP_SET_TO_ALL
        yield from _against_best(document, f"{model}:set:16", ours, to_all)


def _against_best(
    document: Document, row: str, ours: str, wanted: float, without: tuple[str, ...] = ()
) -> Iterator[Target]:
    best = best_other(document, row, without)
    if best:
        who = best.removesuffix(f" {row.partition(':')[0]}")
        yield from at_least(row, f"times the best other, {who}", rate_ratio(document, row, ours, best), wanted)


def best_other(document: Document, row: str, without: tuple[str, ...] = ()) -> str | None:
    """Returns which client but ours and these has the highest rate in a row, or None without another."""
    known = {name: rate(document, row, name) for name in document.present()}
    found = {name: value for name, value in known.items() if value is not None and is_other(name)}
    return max((name for name in found if name not in without), key=found.__getitem__, default=None)


def is_other(name: str) -> bool:
    """Returns whether a contestant is a client, and not ours."""
    return name != FLOOR and name.split()[0] != OURS


def _slow(document: Document) -> Iterator[Target]:
    for size, wanted in SLOW_TO_BLOCKING.items():
        for operation in OPERATIONS:
            row = f"slow:{operation}:{size}:{SLOW_CONCURRENCY}"
            for model in (GEVENT, ASYNCIO):
                base = rates(document, f"slow:{operation}:{size}:sync", OURS)
                found = ratio(rates(document, row, contestant_name(OURS, model)), base)
                yield from at_least(f"{row} {model}", "times the blocking client", found, wanted)


def _syscalls(document: Document) -> Iterator[Target]:
    for each in document.syscalls:
        if each.row.partition(":")[0] in GROUP_TITLES and not is_other(each.contestant) and each.contestant != FLOOR:
            count = sum(each.per_call.values())
            text = f"{each.row}: at most {SYSCALLS_PER_OPERATION:g} system calls per operation"
            yield Target(text, f"{count:.3f}", count <= SYSCALLS_PER_OPERATION)


def _processor(document: Document, group: str) -> Iterator[Target]:
    """One target for all rows of a group: ours below the least of every other client of the same model."""
    rows = [row for row in document.rows_of(group) if row.concurrency > 1]
    found = {
        f"{row.name} {name.rpartition(' ')[2]}": share
        for row in rows
        for name in participants(document, group)
        if name != FLOOR and not is_other(name) and (share := _processor_share(document, row.name, name))
    }
    if found:
        worst = max(found, key=lambda where: found[where].middle)
        text = f"{group}: CPU per operation below others'; most: {worst.partition(':')[2]}"
        met = all(share.middle < 1 for share in found.values())
        yield Target(text, f"{found[worst].middle:.3f}", met, spread_of(found[worst]))


def _processor_share(document: Document, row: str, ours: str) -> Ratio | None:
    """Returns our processor time per operation as a part of the least of the others of the same model."""
    model = ours.rpartition(" ")[2]
    others = [name for name in document.present() if is_other(name) and name.endswith(f" {model}")]
    known = {name: value for name in others if (value := processor_time(document, row, name)) is not None}
    if not known:
        return None
    least = min(known, key=known.__getitem__)
    return ratio(processor_times(document, row, ours), processor_times(document, row, least))
