"""What Pinyon must reach, each target with the measured figure."""

from __future__ import annotations

from collections.abc import Iterator

from .compare import processor_times, rate_ratio, rates, ratio
from .coroutines.targets import pairs_targets
from .goals import OURS, Target, at_least, spread_of
from .grids import FLOOR, Grid, step_rows
from .locks.targets import lock_targets
from .results import Document

PEER, BARE = "pylibmc", "bare socket"
SINGLE_TO_FLOOR = 0.95
SINGLE_TO_PEER = 1.05
MULTIGET_TO_PEER = 1.4
FOUR_SERVERS_TO_FLOOR = 0.95
QUIET_TO_PLAIN = 6.0
LARGE_TO_PEER = 2.0
LARGE_TO_BARE = 0.9
SYSCALLS_PER_CALL = 2
SYSCALL_TARGET_ROWS = ("get:36B", "set:36B")
MEMORY_GROWTH_KILOBYTES = 256


def target_grid(document: Document) -> Grid:
    """Every target, met or missed."""
    rows = [[each.text, "met" if each.met else "missed", each.measured, each.spread] for each in targets(document)]
    return Grid("Against the targets", ["target", "", "measured", "spread"], rows)


def targets(document: Document) -> list[Target]:
    """Returns every target that the document has the figures for."""
    return [
        *_single(document),
        *_multiget(document),
        *_quiet(document),
        *_large(document),
        *_syscalls(document),
        *_memory(document),
        *_processor(document),
        *pairs_targets(document),
        *lock_targets(document),
    ]


def _single(document: Document) -> Iterator[Target]:
    for row in ("get:36B", "set:36B"):
        yield from at_least(row, f"times {FLOOR}", rate_ratio(document, row, OURS, FLOOR), SINGLE_TO_FLOOR)
        yield from at_least(row, f"times {PEER}", rate_ratio(document, row, OURS, PEER), SINGLE_TO_PEER)


def _multiget(document: Document) -> Iterator[Target]:
    one, four = "multiget:100:1", "multiget:100:4"
    yield from at_least(one, f"times {PEER}", rate_ratio(document, one, OURS, PEER), MULTIGET_TO_PEER)
    ours, floor = (ratio(rates(document, four, name), rates(document, one, name)) for name in (OURS, FLOOR))
    if ours and floor:
        kept = ours.middle / floor.middle
        text = f"{four} to :1: at least {FOUR_SERVERS_TO_FLOOR:g} of the {FLOOR}'s own ratio"
        yield Target(text, f"{kept:.3f}", kept >= FOUR_SERVERS_TO_FLOOR)


def _quiet(document: Document) -> Iterator[Target]:
    gain = ratio(rates(document, "setq:plain", OURS), rates(document, "set:plain", OURS))
    yield from at_least("setq:plain", "times set:plain", gain, QUIET_TO_PLAIN)


def _large(document: Document) -> Iterator[Target]:
    row = "get:100KB"
    yield from at_least(row, f"times {PEER}", rate_ratio(document, row, OURS, PEER), LARGE_TO_PEER)
    yield from at_least(row, f"times a {BARE} (Python)", rate_ratio(document, row, OURS, BARE), LARGE_TO_BARE)


def _syscalls(document: Document) -> Iterator[Target]:
    for each in document.syscalls:
        if each.contestant == OURS and each.row in SYSCALL_TARGET_ROWS:
            count = sum(each.per_call.values())
            exact = round(count, 1) == SYSCALLS_PER_CALL
            yield Target(f"{each.row}: exactly {SYSCALLS_PER_CALL} system calls", f"{count:.2f}", exact)


def _memory(document: Document) -> Iterator[Target]:
    for each in document.memory:
        if each.contestant == OURS:
            growth = each.after - each.before
            text = f"{each.what}: memory grows at most {MEMORY_GROWTH_KILOBYTES} kB"
            yield Target(text, f"{growth:+,}", growth <= MEMORY_GROWTH_KILOBYTES)


def _processor(document: Document) -> Iterator[Target]:
    for row in step_rows(document):
        if row.group == "placement":
            continue
        ours, theirs = (processor_times(document, row.name, name) for name in (OURS, PEER))
        found = ratio(ours, theirs)
        if found:
            text = f"{row.name}: CPU per operation at most {PEER}'s"
            yield Target(text, f"{found.middle:.3f}", found.middle <= 1.0, spread_of(found))
