"""Figures from samples: medians over rounds, ratios within rounds, and what is the same within noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median, median_low

from .results import Document, Sample
from .words import rounds_text

TRIMMED_FROM = 5


@dataclass(frozen=True)
class Ratio:
    """The median of the within-round ratios, the round that it was measured in, and the spread of all.

    Of two ratios in the middle it is the lower one, so that it always is that of a round. From five rounds on the spread
    leaves out the lowest and the highest round, so that one disturbed round decides nothing.
    """

    middle: float
    low: float
    high: float
    round: int = 0

    @property
    def same(self) -> bool:
        """Whether the two are the same within noise: the spread includes 1."""
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True)
class Figures:
    """Seconds as Dalli's table has them."""

    user: float
    system: float
    real: float

    @property
    def total(self) -> float:
        """User and system together."""
        return self.user + self.system


def samples_of(document: Document, row: str, contestant: str) -> list[Sample]:
    """Returns a cell's samples; none when the cell is empty."""
    if document.gap(row, contestant):
        return []
    return document.cell(row, contestant)


def rates(document: Document, row: str, contestant: str) -> dict[int, float]:
    """Returns operations per second by round."""
    return {sample.round: sample.operations / sample.wall for sample in samples_of(document, row, contestant)}


def rate(document: Document, row: str, contestant: str) -> float | None:
    """Returns the median of operations per second, or None for an empty cell."""
    values = rates(document, row, contestant).values()
    return median(values) if values else None


def processor_times(document: Document, row: str, contestant: str) -> dict[int, float]:
    """Returns microseconds of the client's processor time per operation, by round."""
    return {
        sample.round: (sample.user + sample.system) / sample.operations * 1e6
        for sample in samples_of(document, row, contestant)
    }


def processor_time(document: Document, row: str, contestant: str) -> float | None:
    """Returns the median microseconds of processor time per operation, or None for an empty cell."""
    values = processor_times(document, row, contestant).values()
    return median(values) if values else None


def figures(document: Document, row: str, contestant: str) -> Figures | None:
    """Returns the seconds for Dalli's table: the sum over the rounds or their median, as the document says."""
    samples = samples_of(document, row, contestant)
    if not samples:
        return None
    combine = sum if document.combine == "sum" else median
    return Figures(
        combine([sample.user for sample in samples]),
        combine([sample.system for sample in samples]),
        combine([sample.wall for sample in samples]),
    )


def rate_ratio(document: Document, row: str, contestant: str, other: str) -> Ratio | None:
    """Returns how many times the other's rate a contestant reaches; None when either cell is empty."""
    return ratio(rates(document, row, contestant), rates(document, row, other))


def ratio(ours: dict[int, float], theirs: dict[int, float]) -> Ratio | None:
    """Returns the ratio of two measures taken in the same rounds; None without a common round."""
    found = {number: ours[number] / theirs[number] for number in sorted(ours.keys() & theirs.keys()) if theirs[number]}
    if not found:
        return None
    values = sorted(found.values())
    spread = values[1:-1] if len(values) >= TRIMMED_FROM else values
    middle = median_low(values)
    return Ratio(middle, spread[0], spread[-1], next(number for number, value in found.items() if value == middle))


def rounds_of(document: Document, rows: Iterable[str]) -> str:
    """Returns in how many rounds rows were timed, in words: 3 rounds, 1 to 2 rounds; empty when none was."""
    numbers: dict[str, set[int]] = {row: set() for row in rows}
    for sample in document.samples:
        if sample.row in numbers:
            numbers[sample.row].add(sample.round)
    counts = sorted({len(found) for found in numbers.values() if found})
    if not counts:
        return ""
    most = rounds_text(counts[-1])
    return most if len(counts) == 1 else f"{counts[0]} to {most}"


def participants(document: Document, group: str) -> list[str]:
    """Returns the contestants that have a figure in a group of rows."""
    rows = [row.name for row in document.rows_of(group)]
    return [name for name in document.present() if any(samples_of(document, row, name) for row in rows)]
