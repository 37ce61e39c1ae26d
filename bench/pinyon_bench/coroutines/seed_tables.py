"""Seed 002's tables in its layout: each client's sets, then its gets."""

from __future__ import annotations

from statistics import median

from ..compare import participants, samples_of
from ..grids import clients_of, contestant_in
from ..names import FLOOR
from ..results import Document, RowInfo
from .rows import OPERATIONS, SYNC, UUID_GROUPS

SEED_COLUMNS = ("elapsed", "rate", "avg", "p50", "p99", "max")
SEED_NOTE = (
    "elapsed: seconds; rate: operations per second; avg, p50, p99, max: milliseconds of single calls. A second pass takes "
    "the latencies, so reading the clock slows no rate. Figures are medians over the rounds; max is the longest of all. "
    "The seed divides n by the seconds of the set for the rate of both; here the get has its own."
)


def seed_lines(document: Document) -> list[str]:
    """The lines of all tables, with the rows in the seed's order."""
    lines: list[str] = []
    for group in (each.name for each in UUID_GROUPS):
        for client in clients_of(participants(document, group), group):
            for operation in OPERATIONS:
                lines += _seed_table(document, group, client, operation)
    return lines


def _seed_table(document: Document, group: str, client: str, operation: str) -> list[str]:
    rows = [row for row in document.rows_of(group) if row.operation == operation]
    measured = [row for row in rows if samples_of(document, row.name, contestant_in(client, row))]
    if not measured:
        return []
    # The seed has the blocking calls first, then the most coroutines.
    measured.sort(key=lambda row: (row.concurrency > 0, -row.concurrency))
    of_model = "" if client == FLOOR else f" {group}"
    header = f"{'':15}" + "".join(f"{name:>12}" for name in SEED_COLUMNS)
    title = f"### {client}{of_model} {operation} ({measured[0].keys} keys)"
    return [title, "", header, *(_seed_line(document, row, contestant_in(client, row)) for row in measured), ""]


def _seed_line(document: Document, row: RowInfo, name: str) -> str:
    samples = samples_of(document, row.name, name)
    label = f"{row.group}-{row.concurrency:02}" if row.concurrency else SYNC
    elapsed = median(sample.wall / sample.operations for sample in samples) * row.keys
    figures = [f"{elapsed:.3f}", f"{median(sample.operations / sample.wall for sample in samples):,.0f}"]
    latencies = [sample.latency for sample in samples if sample.latency]
    if latencies:
        times = (
            median(each.mean for each in latencies),
            median(each.median for each in latencies),
            median(each.p99 for each in latencies),
            max(each.longest for each in latencies),
        )
        figures += [f"{seconds * 1e3:.3f}" for seconds in times]
    return f"    {label:11}" + "".join(f"{figure:>12}" for figure in figures)
