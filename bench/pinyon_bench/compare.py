"""Figures from samples: medians over rounds, ratios within rounds, and what is the same within noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median, median_low

from .results import Document, Sample

TRIMMED_FROM = 5


@dataclass(frozen=True)
class Ratio:
    """The median of the within-round ratios, of two in the middle the lower, and the spread of all.

    From five rounds on the spread leaves out the lowest and the highest round, so that one disturbed round decides nothing.
    """

    middle: float
    low: float
    high: float

    @property
    def same(self) -> bool:
        """Whether the two are the same within noise: the spread includes 1."""
        return self.low <= 1.0 <= self.high


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


def rate_ratio(document: Document, row: str, contestant: str, other: str) -> Ratio | None:
    """Returns how many times the other's rate a contestant reaches; None when either cell is empty."""
    return ratio(rates(document, row, contestant), rates(document, row, other))


def ratio(ours: dict[int, float], theirs: dict[int, float]) -> Ratio | None:
    """Returns the ratio of two measures taken in the same rounds; None without a common round."""
    values = sorted(ours[number] / theirs[number] for number in ours.keys() & theirs.keys() if theirs[number])
    if not values:
        return None
    spread = values[1:-1] if len(values) >= TRIMMED_FROM else values
    return Ratio(median_low(values), spread[0], spread[-1])


def participants(document: Document, rows: Iterable[str]) -> list[str]:
    """Returns the contestants that have a figure in any of these rows."""
    names = list(rows)
    return [name for name in document.present() if any(samples_of(document, row, name) for row in names)]
