"""The coroutines' tables as data, made only from a result document."""

from __future__ import annotations

from statistics import median

from ..compare import processor_time, rate, rates, ratio, samples_of
from ..contestant import FLOOR, contestant_name
from ..grids import NONE, Grid, participants
from ..results import Document, RowInfo
from .models import ASYNCIO, BLOCKING, GEVENT, UVLOOP
from .rows import OPERATIONS, SLOW, SYNC

UUID_GROUPS = (GEVENT, ASYNCIO, UVLOOP)
GROUP_TITLES = {
    GEVENT: "gevent: pairs of UUIDs (seed 002)",
    ASYNCIO: "asyncio: pairs of UUIDs (seed 002)",
    UVLOOP: "uvloop: pairs of UUIDs (seed 002)",
    "local": "Values of a size, server nearby (seed 003)",
    "slow": "Values of a size, slow link (seed 003)",
}
SEED_COLUMNS = ("elapsed", "rate", "avg", "p50", "p99", "max")
SEED_NOTE = (
    "elapsed in seconds, rate per second; avg, p50, p99 and max of single calls in milliseconds, from a second pass whose "
    "clock readings slow no rate. Medians over the rounds; max is the longest of all. In the seed's tables the rate of a "
    "get is the set's, n divided by the seconds of the set, which is an error; here each has its own."
)


def clients_of(document: Document, group: str) -> list[str]:
    """Returns the clients, whatever their concurrency model, with a figure in a group of UUID pairs."""
    names = participants(document, group)
    suffix = f" {group}"
    clients = dict.fromkeys(name[: -len(suffix)] if name.endswith(suffix) else name for name in names)
    return sorted(clients, key=lambda name: name == FLOOR)


def contestant_in(client: str, row: RowInfo) -> str:
    """Returns the name of a client's contestant in a row of UUID pairs: its blocking one, or that of the group's model."""
    return contestant_name(client, row.group if row.concurrency else BLOCKING)


def rate_grid(document: Document, group: str) -> Grid:
    """Rates of a group, each with its ratio to what matters there."""
    return _uuid_rate_grid(document, group) if group in UUID_GROUPS else _size_rate_grid(document, group)


def _uuid_rate_grid(document: Document, group: str) -> Grid:
    clients = clients_of(document, group)
    rows = [
        [
            _label(row),
            *(
                _beside(document, row.name, contestant_in(client, row), row.name, _first(clients, row))
                for client in clients
            ),
        ]
        for row in _ordered(document, group)
    ]
    note = f"By coroutines; in parentheses times the rate of {clients[0]}." if clients else ""
    if group == GEVENT and clients:
        note += " pylibmc and libmc block the hub: their greenlets take turns, and nothing runs at once."
    return Grid(f"{GROUP_TITLES[group]}, operations per second", ["", *clients], rows, note)


def _first(clients: list[str], row: RowInfo) -> str:
    return contestant_in(clients[0], row)


def _size_rate_grid(document: Document, group: str) -> Grid:
    names = participants(document, group)
    title = f"{GROUP_TITLES[group]}, operations per second"
    if not names:
        return Grid(title, [])
    rows = [
        [_label(row), *(_size_cell(document, row, name, names[0]) for name in names)]
        for row in _ordered(document, group)
    ]
    note = "By coroutines."
    if group == SLOW:
        note = f"By coroutines; in parentheses times the rate of blocking calls of {names[0]}."
    if group == SLOW and "slow link" in document.versions:
        note += f" Link: {document.versions['slow link']}."
    return Grid(title, ["", *names], rows, note)


def _size_cell(document: Document, row: RowInfo, name: str, first: str) -> str:
    """Returns a rate; over the slow link beside that of blocking calls, which is what coroutines are for."""
    if row.group == SLOW:
        return _beside(document, row.name, name, blocking_row(row), first)
    value = rate(document, row.name, name)
    return NONE if value is None else f"{value:,.0f}"


def blocking_row(row: RowInfo) -> str:
    """Returns the name of the row that does the same in blocking calls."""
    return f"{row.name.rpartition(':')[0]}:{SYNC}"


def _beside(document: Document, row: str, name: str, base_row: str, base: str) -> str:
    """Returns a rate, and its ratio to the base in parentheses."""
    value = rate(document, row, name)
    if value is None:
        return NONE
    found = ratio(rates(document, row, name), rates(document, base_row, base))
    return f"{value:,.0f}" if found is None else f"{value:,.0f} ({_short(found.middle)})"


def _short(factor: float) -> str:
    return f"{factor:.0f}" if factor >= 10 or factor == 1 else f"{factor:.1f}" if factor >= 1 else f"{factor:.2f}"


def _label(row: RowInfo) -> str:
    return " ".join(row.name.split(":")[1:])


def _ordered(document: Document, group: str) -> list[RowInfo]:
    """Returns a group's rows: all sets, then all gets, by size, more coroutines further down."""
    rows = document.rows_of(group)
    return sorted(rows, key=lambda row: (OPERATIONS.index(row.operation), row.size, row.concurrency))


def processor_grid(document: Document, group: str) -> Grid:
    """Processor time per operation, of a group's rows and its clients."""
    uuids = group in UUID_GROUPS
    names = clients_of(document, group) if uuids else participants(document, group)
    rows = [
        [_label(row), *(_processor_cell(document, row, contestant_in(name, row) if uuids else name) for name in names)]
        for row in _ordered(document, group)
    ]
    return Grid(f"{GROUP_TITLES[group]}, client CPU, microseconds per operation", ["", *names], rows if names else [])


def _processor_cell(document: Document, row: RowInfo, name: str) -> str:
    value = processor_time(document, row.name, name)
    return NONE if value is None else f"{value:.2f}"


def seed_lines(document: Document) -> list[str]:
    """Seed 002's tables in its layout: each client's sets, then its gets, with the seed's order of rows."""
    lines: list[str] = []
    for group in UUID_GROUPS:
        for client in clients_of(document, group):
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
