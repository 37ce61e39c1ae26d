"""The ratios that a reader wants first: ours to the best other client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..c.rows import GROUP as C_GROUP
from ..compare import rounds_of
from ..coroutines.rows import THREADS
from ..locks.measures import keys_label, lock_rows_of
from ..locks.rows import MUTEX_WORKERS
from ..locks.workloads import MUTEX, PAIR
from ..names import PERL
from ..results import Document, RowInfo
from ..step_rows import SIZE
from .clients import COROUTINE_GROUPS, Clients
from .figures import TYPICAL_CONCURRENCY, TYPICAL_KEYS, nearest, perl_loops, rows_measured, size_text
from .findings import Standing, not_measured, standing, times


@dataclass(frozen=True)
class Headline:
    """One ratio: what was done, how many times the best other's rate, the rates behind it, and how it varied.

    The factor and both rates are those of one round, in which the ratio was in the middle. `dropped` says which clients
    have no figure in the row, and why.
    """

    what: str
    factor: str
    rates: str
    tone: str
    spread: str = ""
    dropped: tuple[str, ...] = ()


def headlines(document: Document) -> list[Headline]:
    """Returns a headline for each of the chosen rows in which both ours and another have figures."""
    clients = Clients(document)
    found = ((what, row, standing(document, clients, row.name)) for what, row in _chosen(document))
    return [_headline(document, what, row, stood) for what, row, stood in found if stood and stood.ratio]


def _headline(document: Document, what: str, row: RowInfo, stood: Standing) -> Headline:
    assert stood.ratio is not None
    tone = "same" if stood.ratio.same else "faster" if stood.ratio.middle > 1 else "slower"
    each = "/s" if row.unit == "operations" else f" {row.unit}/s"
    ours, other = stood.rates_in(document, row.name, stood.ratio.round)
    rates = f"{stood.ours} {ours:,.0f}{each}, {stood.other} {other:,.0f}{each}"
    spread = f"{stood.ratio.low:.2f} to {stood.ratio.high:.2f} in {rounds_of(document, [row.name])}"
    if stood.ratio.same:
        spread += "; the same within noise"
    factor = times(stood.ratio.middle).replace(" times", "×")
    return Headline(what, factor, rates, tone, spread, tuple(not_measured(document, row.name)))


def _chosen(document: Document) -> Iterator[tuple[str, RowInfo]]:
    yield from _blocking(document)
    for group in COROUTINE_GROUPS:
        rows = [row for row in rows_measured(document, group, "get") if row.concurrency]
        if rows:
            many = nearest({row.concurrency for row in rows}, TYPICAL_CONCURRENCY)
            yield f"{group}: get, {many} at once", next(row for row in rows if row.concurrency == many)
    for row in rows_measured(document, THREADS.name, "get")[-1:]:
        yield f"{row.concurrency} threads on one client: get", row
    slow = [row for row in rows_measured(document, "slow", "get") if row.concurrency]
    if slow:
        row = min(slow, key=lambda row: (row.size, -row.concurrency))
        yield f"slow link: get of {size_text(row.size)}, {row.concurrency} at once", row
    yield from _perl(document)
    yield from _c(document)
    yield from _locks(document)


def _perl(document: Document) -> Iterator[tuple[str, RowInfo]]:
    for row in rows_measured(document, f"{PERL}:{SIZE.name}", "get")[:1]:
        yield f"Perl: get of {size_text(row.size)}", row
    rows = perl_loops(document, "get")
    if rows and (most := max(rows, key=lambda row: row.concurrency)).concurrency:
        yield f"Perl: get of {size_text(most.size)}, {most.concurrency} at once", most


def _c(document: Document) -> Iterator[tuple[str, RowInfo]]:
    for row in rows_measured(document, C_GROUP.name, "get")[:1]:
        yield f"C: get of {size_text(row.size)}", row


def _locks(document: Document) -> Iterator[tuple[str, RowInfo]]:
    for row in lock_rows_of(document, PAIR)[:1]:
        yield "lock and unlock 1 key, alone", row
    for row in lock_rows_of(document, MUTEX)[-1:]:
        yield f"locks of {MUTEX_WORKERS} workers, {keys_label(row)} keys", row


def _blocking(document: Document) -> Iterator[tuple[str, RowInfo]]:
    for operation in ("get", "set"):
        rows = [row for row in rows_measured(document, "size", operation) if row.size]
        for row in (
            sorted({min(rows, key=lambda row: row.size), max(rows, key=lambda row: row.size)}, key=lambda row: row.size)
            if rows
            else []
        ):
            yield f"{row.operation} of {size_text(row.size)}", row
    one = [row for row in document.rows_of("multiget") if row.keys and row.servers == 1]
    if one:
        many = nearest({row.keys for row in one}, TYPICAL_KEYS)
        yield f"multi-get of {many} keys", next(row for row in one if row.keys == many)
