"""Redis's work per cycle, and how long hand-overs took, by round; made only from a result document."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from ..compare import Ratio, ratio, samples_of
from ..names import FLOOR
from ..results import Document, Latency, RowInfo, ServerWork
from .workloads import HANDOVER, NEAR, PING, Link, group_of

PUBLISHES = ("publish", "spublish")
#: Computes a figure from Redis's counts for one cell.
PerCycle = Callable[[ServerWork], float]


def commands_sent(work: ServerWork) -> float:
    """Returns how many commands clients sent per cycle."""
    return sum(work.sent.values()) / work.cycles


def published(work: ServerWork) -> float:
    """Returns how many messages were published per cycle, by clients or scripts."""
    return sum(work.calls.get(name, 0) for name in PUBLISHES) / work.cycles


def reads(work: ServerWork) -> float:
    """Returns how many times Redis read from a socket per cycle. A client that sends all it can at once waits as many
    times.
    """
    return work.reads / work.cycles


def server_time(work: ServerWork) -> float:
    """Returns the microseconds that commands took per cycle, with the scripts inside them."""
    return work.microseconds / work.cycles


def per_cycle(document: Document, row: str, contestant: str, part: PerCycle) -> float | None:
    """Returns the median over rounds, or None for an empty cell."""
    found = [
        part(work)
        for work in document.server_work
        if (work.row, work.contestant) == (row, contestant) and work.cycles and not document.gap(row, contestant)
    ]
    return median(found) if found else None


def lock_rows_of(document: Document, workload: str, link: Link = NEAR) -> list[RowInfo]:
    """Returns the rows of a workload, by their number of keys."""
    return sorted(document.rows_of(group_of(workload, link)), key=lambda row: row.keys)


def handover_row(document: Document, link: Link = NEAR) -> str | None:
    """Returns the name of the row of hand-overs between processes."""
    return next((row.name for row in lock_rows_of(document, HANDOVER, link)), None)


def latencies(document: Document, row: str, contestant: str, part: Callable[[Latency], float]) -> dict[int, float]:
    """Returns one figure of the latencies of a cell, in seconds, by round."""
    found = samples_of(document, row, contestant)
    return {sample.round: part(sample.latency) for sample in found if sample.latency}


def middle_of(latency: Latency) -> float:
    """Returns the median."""
    return latency.median


def p99_of(latency: Latency) -> float:
    """Returns the 99th percentile."""
    return latency.p99


def in_round_trips(
    document: Document, contestant: str, part: Callable[[Latency], float], link: Link = NEAR
) -> Ratio | None:
    """Returns a figure of the hand-overs in round trips, as measured by the floor in the same round over the same
    link.
    """
    row = handover_row(document, link)
    if row is None:
        return None
    return ratio(
        latencies(document, row, contestant, part), latencies(document, group_of(PING, link), FLOOR, middle_of)
    )


def share_from_another(document: Document, contestant: str) -> float | None:
    """Returns the share of grants that went to another, waiting process."""
    cell = (handover_row(document), contestant)
    found = [each for each in document.handovers if (each.row, each.contestant) == cell and each.taken]
    return median(each.from_another / each.taken for each in found) if found else None
