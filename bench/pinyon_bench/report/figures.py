"""The plots: each takes its rows from the document, and is left out when the document has none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from ..compare import rates, ratio
from ..coroutines.rows import THREADS
from ..names import PERL
from ..perl.rows import LOCAL, LOOPS, PAIRS_GROUPS
from ..results import Document, RowInfo
from .clients import COROUTINE_GROUPS, Clients
from .drawing import Words, draw_curves, draw_latencies, draw_processor, short_number
from .findings import (
    growth_sentence,
    latency_sentence,
    processor_sentence,
    rate_sentence,
    speed_up_sentence,
)
from .locks import lock_section
from .measures import (
    Curve,
    Value,
    curves,
    percentiles,
    processor_value,
)
from .plots import Plot, Section

OPERATIONS = ("get", "set")
TYPICAL_CONCURRENCY = 16
LATENCY_CONCURRENCIES = (16, 64)
TYPICAL_KEYS = 100
PER_SECOND = "operations per second"


def sections(document: Document) -> list[Section]:
    """Returns every section that has a plot."""
    clients = Clients(document)
    kinds = [
        Section(
            "concurrency",
            "Throughput by concurrency",
            "Operations per second of coroutines or threads that share one client, by their number. Hollow marks on the "
            "left are blocking calls, one after another.",
            list(_concurrency(document, clients)),
        ),
        Section(
            "latency",
            "Latency of single calls",
            "From the median (dot) to the 99th percentile (bar), by the number of coroutines. The axis is logarithmic.",
            list(_latency(document, clients)),
        ),
        Section(
            "processor",
            "CPU per operation",
            "Processor time of the client's process: the strong part in user code, the light part in the kernel.",
            list(_processor(document, clients)),
        ),
        Section(
            "size",
            "Throughput by value size",
            "Operations per second of a client that is connected and warm, by the size of the value.",
            list(_sizes(document, clients)),
        ),
        Section(
            "slow",
            "Speed-up on a slow link",
            "Rates over a link with a delay, as multiples of our blocking client's, by the number of coroutines. Both axes "
            "are logarithmic.",
            list(_slow(document, clients)),
        ),
        Section(
            "multiget",
            "Multi-get",
            "Keys per second, by the number of keys in one call. Both axes are logarithmic.",
            list(_multiget(document, clients)),
        ),
        lock_section(document, clients),
    ]
    return [section for section in kinds if section.plots]


def rows_measured(document: Document, group: str, operation: str) -> list[RowInfo]:
    """Returns the rows of a group and an operation in which any client has figures."""
    measured = {sample.row for sample in document.samples}
    return [row for row in document.rows_of(group) if row.name in measured and row.operation == operation]


def nearest(values: set[int], wanted: int) -> int:
    """Returns the value that is nearest to the wanted one by ratio."""
    return min(values, key=lambda value: (abs(math.log(value / wanted)), value))


def _panels(document: Document) -> Iterator[tuple[str, str, list[RowInfo]]]:
    """Gives each coroutine library and operation with its rows, if it has rows of coroutines."""
    for group in COROUTINE_GROUPS:
        for operation in OPERATIONS:
            rows = rows_measured(document, group, operation)
            if any(row.concurrency for row in rows):
                yield group, operation, rows
    for operation in OPERATIONS:
        rows = perl_loops(document, operation)
        if any(row.concurrency for row in rows):
            yield PERL, operation, rows


def perl_loops(document: Document, operation: str) -> list[RowInfo]:
    """Returns the rows of Perl's coroutines and callbacks with the smallest values, on a server nearby."""
    rows = rows_measured(document, PAIRS_GROUPS[LOOPS, LOCAL].name, operation)
    return [row for row in rows if row.size == min(each.size for each in rows)]


def _concurrency(document: Document, clients: Clients) -> Iterator[Plot]:
    for group, operation, rows in _panels(document):
        words = Words(f"concurrency-{group}-{operation}", f"{operation}, {group}", PER_SECOND, "coroutines at once")
        found = curves(document, rows, lambda row: row.concurrency)
        draw = partial(draw_curves, words, found, clients, _whole)
        typical = nearest({row.concurrency for row in rows if row.concurrency}, TYPICAL_CONCURRENCY)
        row = next(row for row in rows if row.concurrency == typical)
        finding = _joined(
            rate_sentence(document, clients, row, f"With {typical} coroutines"),
            growth_sentence(document, clients, rows),
        )
        yield Plot(words.key, f"{operation.capitalize()}s per second by concurrency, {group}", draw, finding)
    yield from _threads(document, clients)


def _threads(document: Document, clients: Clients) -> Iterator[Plot]:
    for operation in OPERATIONS:
        rows = rows_measured(document, THREADS.name, operation)
        if len(rows) < 2:
            continue
        words = Words(f"concurrency-threads-{operation}", f"{operation}, threads", PER_SECOND, "threads at once")
        draw = partial(draw_curves, words, curves(document, rows, lambda row: row.concurrency), clients, _whole)
        most = max(rows, key=lambda row: row.concurrency)
        finding = _joined(
            rate_sentence(document, clients, most, f"With {most.concurrency} threads"),
            growth_sentence(document, clients, rows),
        )
        yield Plot(words.key, f"{operation.capitalize()}s per second by threads of Python", draw, finding)


def _latency(document: Document, clients: Clients) -> Iterator[Plot]:
    for group, operation, rows in _panels(document):
        found = {
            (name, row.concurrency): span
            for row in rows
            if row.concurrency in LATENCY_CONCURRENCIES
            for name in document.present()
            if (span := percentiles(document, row.name, name))
        }
        if not found:
            continue
        words = Words(
            f"latency-{group}-{operation}",
            f"{operation}, {group}: latency",
            "median to p99; client, coroutines at once",
            "",
        )
        sentences = []
        for concurrency in sorted({concurrency for _, concurrency in found}):
            spans = {name: span for (name, many), span in found.items() if many == concurrency}
            sentences.append(latency_sentence(clients, spans, concurrency))
        title = f"Latency of {operation}, {group}"
        yield Plot(words.key, title, partial(draw_latencies, words, found, clients), _joined(*sentences))


def _processor(document: Document, clients: Clients) -> Iterator[Plot]:
    for kind, row in _processor_rows(document):
        values = {name: processor_value(document, row.name, name) for name in document.present()}
        times = {name: value for name, value in values.items() if value}
        operation = row.operation
        title = f"{operation}, {kind}: CPU"
        words = Words(
            f"processor-{row.group.replace(':', '-')}-{operation}",
            title,
            "strong: user code, light: kernel",
            "microseconds per operation",
        )
        finding = processor_sentence(document, clients, row)
        yield Plot(
            words.key,
            f"CPU per {operation}, {kind}",
            partial(draw_processor, words, times, clients),
            finding,
        )


def _processor_rows(document: Document) -> Iterator[tuple[str, RowInfo]]:
    """Gives the rows whose processor time is shown, each with words for what it is."""
    for operation in OPERATIONS:
        rows = [row for row in rows_measured(document, "size", operation) if row.size]
        if rows:
            smallest = min(rows, key=lambda row: row.size)
            yield f"blocking, {size_text(smallest.size)}", smallest
    for group, _, rows in _panels(document):
        typical = nearest({row.concurrency for row in rows if row.concurrency}, TYPICAL_CONCURRENCY)
        yield f"{group}, {typical} at once", next(row for row in rows if row.concurrency == typical)


def _sizes(document: Document, clients: Clients) -> Iterator[Plot]:
    for group in ("size", "local"):
        for operation in OPERATIONS:
            rows = [row for row in rows_measured(document, group, operation) if row.size]
            concurrent = {row.concurrency for row in rows if row.concurrency}
            many = nearest(concurrent, TYPICAL_CONCURRENCY) if group == "local" and concurrent else None
            rows = [row for row in rows if many is None or row.concurrency == many]
            if len({row.size for row in rows}) < 2:
                continue
            kind = "blocking" if many is None else f"{many} at once"
            words = Words(
                f"{group}-{operation}",
                f"{operation}, {kind}, by value size",
                PER_SECOND,
                "bytes of the value (K: 1024)",
            )
            draw = partial(
                draw_curves,
                words,
                curves(document, rows, lambda row: row.size),
                clients,
                _size_on_axis,
            )
            ends = (min(rows, key=lambda row: row.size), max(rows, key=lambda row: row.size))
            finding = _joined(
                *(rate_sentence(document, clients, row, f"With values of {size_text(row.size)}") for row in ends)
            )
            title = f"{operation.capitalize()}s per second by value size, {kind}"
            yield Plot(words.key, title, draw, finding)


def _slow(document: Document, clients: Clients) -> Iterator[Plot]:
    sizes = sorted({row.size for row in document.rows_of("slow")})
    for size in sizes:
        for operation in OPERATIONS:
            rows = [row for row in rows_measured(document, "slow", operation) if row.size == size]
            plot = _speed_up(document, clients, rows, operation, size)
            if plot:
                yield plot


def _speed_up(document: Document, clients: Clients, rows: list[RowInfo], operation: str, size: int) -> Plot | None:
    most = max((row.concurrency for row in rows), default=0)
    first = min(rows, key=lambda row: row.concurrency, default=None)
    if first is None or most < 2:
        return None
    calling = [curve.contestant for curve in curves(document, [first], lambda row: 1)]
    baseline = next((name for name in calling if clients.is_ours(name)), None)
    if baseline is None:
        return None
    gains = _gains(document, rows, first, baseline)
    label = size_text(size)
    words = Words(
        f"slow-{operation}-{label.replace(' ', '')}",
        f"{operation} of {label}, slow link: speed-up",
        "times the rate of blocking calls",
        "coroutines at once",
    )
    draw = partial(draw_curves, words, gains, clients, _whole, logarithmic=True, level=1.0)
    at_most = {curve.contestant: curve.points[most].middle for curve in gains if most in curve.points}
    finding = speed_up_sentence(clients, at_most, most, baseline)
    return Plot(words.key, f"Speed-up of {operation}s of {label} on a slow link", draw, finding)


def _gains(document: Document, rows: list[RowInfo], first: RowInfo, baseline: str) -> list[Curve]:
    """Returns each contestant's rates over the baseline's in the first row, round by round."""
    against = rates(document, first.name, baseline)
    found = []
    for name in document.present():
        gains = {row.concurrency: ratio(rates(document, row.name, name), against) for row in rows}
        values = {many: Value(gain.middle, gain.low, gain.high) for many, gain in sorted(gains.items()) if gain}
        blocking = values.pop(0, None)
        if len(values) > 1:
            found.append(Curve(name, {float(many): value for many, value in values.items()}, blocking))
    return found


def _multiget(document: Document, clients: Clients) -> Iterator[Plot]:
    measured = {sample.row for sample in document.samples}
    rows = [row for row in document.rows_of("multiget") if row.name in measured and row.keys]
    for servers in sorted({row.servers for row in rows}):
        alike = [row for row in rows if row.servers == servers]
        counts = {row.keys for row in alike}
        if len(counts) < 2:
            continue
        where = "1 server" if servers == 1 else f"{servers} servers"
        words = Words(f"multiget-{servers}", f"multi-get, {where}", "keys per second", "keys per call")
        found = curves(document, alike, lambda row: row.keys)
        draw = partial(draw_curves, words, found, clients, short_number, logarithmic=True)
        shown = [row for row in alike if row.keys in (nearest(counts, TYPICAL_KEYS), max(counts))]
        finding = _joined(*(rate_sentence(document, clients, row, f"With {row.keys:,} keys") for row in shown))
        yield Plot(words.key, f"Keys per second of multi-get from {where}", draw, finding)


def size_text(size: int) -> str:
    """Returns a size as rows name it: 64 B, 10 KB."""
    return f"{size / 1024:g} KB" if size >= 1024 else f"{size} B"


def _size_on_axis(size: float) -> str:
    return size_text(int(size)).rstrip("B").replace(" ", "")


def _whole(value: float) -> str:
    return f"{value:g}"


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
