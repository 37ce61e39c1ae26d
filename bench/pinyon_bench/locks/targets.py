"""What Pinyon's locks must reach, each target with the measured figure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..compare import rate_ratio, rates, ratio
from ..contestant import FLOOR, contestant_name
from ..coroutines.models import ASYNCIO, GEVENT
from ..goals import OURS, Target, at_least, spread_of
from ..results import Document
from .entries import PURE, SCRIPT
from .measures import (
    commands_sent,
    handover_row,
    in_round_trips,
    lock_rows_of,
    middle_of,
    p99_of,
    per_cycle,
    published,
    reads,
    server_time,
)
from .rows import FAR, HANDOVER, MUTEX, NEAR, PAIR, PIPELINED, SECTION, SECTION_SECONDS, group_of

OURS_SCRIPT, OURS_PURE = f"{OURS} {SCRIPT}", f"{OURS} {PURE}"
PEER = "redis-py"
ONE_PAIR, ONE_PIPELINED = f"{group_of(PAIR)}:1", f"{group_of(PIPELINED)}:1"
FEWEST, MOST = "1/1", "10/19"
COMMANDS_PER_CYCLE = 2.0
WAKE_UPS_PER_GRANT = 1.0
PAIR_TO_FLOOR = 0.8
PAIR_TO_PEER = 3.0
#: The floor's pipelined pairs per second where the seed was measured: the scale of the next figures.
SEED_FLOOR = 46_800
MUTEX_RATES = {FEWEST: 15_000, MOST: 8_000}
MUTEX_GROWTH = 2.0
#: Cycles of the seed's second test in its seconds, there.
SEED_SECTION = {FEWEST: 10_300, MOST: 6_500}
SECTION_TO_SEED = 1.5
PURE_ROUND_TRIPS = 3
HANDOVER_MIDDLE, HANDOVER_P99 = 1.5, 5.0
SERVER_MICROSECONDS = 10.0
#: What counts as exact, because warm connections may be opened within a cell.
EXACT = 0.005


def lock_targets(document: Document) -> Iterator[Target]:
    """Gives every target of locks that the document has the figures for."""
    yield from _commands(document)
    yield from _wake_ups(document)
    yield from _alone(document)
    for model in (GEVENT, ASYNCIO):
        yield from _mutex(document, model)
    for model in (GEVENT, ASYNCIO):
        yield from _section(document, model)
    yield from _pure(document)
    yield from _handover(document)
    yield from _server_time(document)


def _commands(document: Document) -> Iterator[Target]:
    """One target for all rows whose cycles have no commands of their own, at any number of keys and workers."""
    rows = [row.name for workload in (PAIR, MUTEX, HANDOVER) for row in lock_rows_of(document, workload)]
    found = {
        f"{row.partition(':')[2]}{name.removeprefix(OURS_SCRIPT)}": value
        for row in rows
        for name in document.present()
        if name.startswith(OURS_SCRIPT) and (value := per_cycle(document, row, name, commands_sent)) is not None
    }
    if found:
        worst = max(found, key=lambda where: abs(found[where] - COMMANDS_PER_CYCLE))
        text = f"locks: exactly {COMMANDS_PER_CYCLE:g} commands per cycle; farthest: {worst}"
        yield Target(text, f"{found[worst]:.3f}", abs(found[worst] - COMMANDS_PER_CYCLE) < EXACT)


def _wake_ups(document: Document) -> Iterator[Target]:
    row = handover_row(document)
    value = None if row is None else per_cycle(document, row, OURS_SCRIPT, published)
    if value is not None:
        text = f"{row}: at most {WAKE_UPS_PER_GRANT:g} wake-up per grant"
        yield Target(text, f"{value:.3f}", value <= WAKE_UPS_PER_GRANT)


def _alone(document: Document) -> Iterator[Target]:
    yield from at_least(ONE_PAIR, f"times {FLOOR}", rate_ratio(document, ONE_PAIR, OURS_SCRIPT, FLOOR), PAIR_TO_FLOOR)
    yield from at_least(ONE_PAIR, f"times {PEER}", rate_ratio(document, ONE_PAIR, OURS_SCRIPT, PEER), PAIR_TO_PEER)


def _mutex(document: Document, model: str) -> Iterator[Target]:
    ours = contestant_name(OURS_SCRIPT, model)
    floor = rates(document, ONE_PIPELINED, FLOOR)
    for label, wanted in MUTEX_RATES.items():
        row = f"{group_of(MUTEX)}:{label}"
        found = ratio(rates(document, row, ours), floor)
        if found:
            text = f"{row} {model}: at least {wanted:,}/s at the seed's scale"
            there = found.middle * SEED_FLOOR
            spread = f"{found.low * SEED_FLOOR:,.0f}–{found.high * SEED_FLOOR:,.0f}"
            yield Target(text, f"{there:,.0f}", there >= wanted, spread)
    fewest, most = (rates(document, f"{group_of(MUTEX)}:{label}", ours) for label in (FEWEST, MOST))
    growth = ratio(fewest, most)
    if growth:
        text = f"{group_of(MUTEX)} {model}: {MOST} takes at most {MUTEX_GROWTH:g} times as long as {FEWEST}"
        yield Target(text, f"{growth.middle:.3f}", growth.middle <= MUTEX_GROWTH, spread_of(growth))


def _section(document: Document, model: str) -> Iterator[Target]:
    ours = contestant_name(OURS_SCRIPT, model)
    floor = rates(document, ONE_PIPELINED, FLOOR)
    for label, seed in SEED_SECTION.items():
        row = f"{group_of(SECTION)}:{label}"
        # The seed's rate on this machine, by the floor that was measured in the same round.
        theirs = {number: seed / SECTION_SECONDS * each / SEED_FLOOR for number, each in floor.items()}
        found = ratio(rates(document, row, ours), theirs)
        yield from at_least(f"{row} {model}", f"times the seed's {seed:,}", found, SECTION_TO_SEED)


def _pure(document: Document) -> Iterator[Target]:
    for row in lock_rows_of(document, PAIR):
        value = per_cycle(document, row.name, OURS_PURE, reads)
        if value is not None:
            text = f"{row.name} {PURE}: 1 round trip to lock, 2 to unlock"
            yield Target(text, f"{value:.2f}", value < PURE_ROUND_TRIPS + EXACT)


def _handover(document: Document) -> Iterator[Target]:
    wanted = (("p50", middle_of, HANDOVER_MIDDLE), ("p99", p99_of, HANDOVER_P99))
    for link, (what, part, most) in product((NEAR, FAR), wanted):
        found = in_round_trips(document, OURS_SCRIPT, part, link)
        if found:
            text = f"{handover_row(document, link)}: {what} at most {most:g} round trips of the {FLOOR}"
            yield Target(text, f"{found.middle:.3f}", found.middle <= most, spread_of(found))


def _server_time(document: Document) -> Iterator[Target]:
    value = per_cycle(document, ONE_PAIR, OURS_SCRIPT, server_time)
    if value is not None:
        text = f"{ONE_PAIR}: at most {SERVER_MICROSECONDS:g} µs of the server per cycle"
        yield Target(text, f"{value:.2f}", value <= SERVER_MICROSECONDS)
