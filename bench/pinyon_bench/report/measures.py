"""What plots show: medians over the rounds with their spread, of rows laid out along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median

from ..compare import TRIMMED_FROM, processor_times, rates, samples_of
from ..results import Document, Latency, RowInfo
from .clients import client_of

MICROSECONDS = 1e6


@dataclass(frozen=True)
class Value:
    """A median over rounds, and the lowest and highest round, without the outermost two from five rounds on."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """One contestant's values along an axis; `blocking` is that of its blocking calls, which have no place on it."""

    contestant: str
    points: dict[float, Value]
    blocking: Value | None = None

    @property
    def last(self) -> Value | None:
        """The value at the far end of the axis."""
        return self.points[max(self.points)] if self.points else None


@dataclass(frozen=True)
class ProcessorTime:
    """Microseconds per operation: all with its spread, and the part of it spent in user code."""

    total: Value
    user: float


@dataclass(frozen=True)
class Percentiles:
    """Latency of single calls in microseconds."""

    median: Value
    p99: Value


def summary(values: Iterable[float]) -> Value | None:
    """Returns the median and the spread, or None when there are no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    spread = ordered[1:-1] if len(ordered) >= TRIMMED_FROM else ordered
    return Value(median(ordered), spread[0], spread[-1])


def rate_value(document: Document, row: str, contestant: str) -> Value | None:
    """Returns operations per second, or None for a void cell."""
    return summary(rates(document, row, contestant).values())


def processor_value(document: Document, row: str, contestant: str) -> ProcessorTime | None:
    """Returns the client's processor time per operation, or None for a void cell."""
    total = summary(processor_times(document, row, contestant).values())
    if total is None:
        return None
    user = median(each.user / each.operations for each in samples_of(document, row, contestant))
    return ProcessorTime(total, user * MICROSECONDS)


def percentiles(document: Document, row: str, contestant: str) -> Percentiles | None:
    """Returns the latencies of a cell, or None when none were taken."""
    found = [each.latency for each in samples_of(document, row, contestant) if each.latency]
    middle = summary(_microseconds(found, lambda latency: latency.median))
    p99 = summary(_microseconds(found, lambda latency: latency.p99))
    return Percentiles(middle, p99) if middle and p99 else None


def _microseconds(found: list[Latency], part: Callable[[Latency], float]) -> list[float]:
    return [part(latency) * MICROSECONDS for latency in found]


def curves(document: Document, rows: list[RowInfo], place: Callable[[RowInfo], float]) -> list[Curve]:
    """Returns a curve of rates for each contestant with figures in the rows; a row at place 0 is one of blocking calls."""
    names = [name for name in document.present() if any(rates(document, row.name, name) for row in rows)]
    return _merged([_curve(document, name, rows, place) for name in names])


def _merged(found: list[Curve]) -> list[Curve]:
    """Gives the blocking calls of a client to its coroutines' curve, where they are two contestants."""
    blocking = {client_of(curve.contestant): curve.blocking for curve in found if not curve.points}
    merged = []
    for curve in found:
        client = client_of(curve.contestant)
        if curve.points:
            merged.append(curve if curve.blocking else replace(curve, blocking=blocking.pop(client, None)))
    return [*merged, *(curve for curve in found if not curve.points and client_of(curve.contestant) in blocking)]


def _curve(document: Document, name: str, rows: list[RowInfo], place: Callable[[RowInfo], float]) -> Curve:
    found = {place(row): rate_value(document, row.name, name) for row in rows}
    points = {where: value for where, value in sorted(found.items()) if value and where}
    return Curve(name, points, found.get(0))
