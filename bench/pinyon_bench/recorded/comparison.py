"""Pinyon beside the fastest other client and the floor, row by row, from the figures in the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..catalogue import GROUPS, all_rows
from ..grids import model_of
from ..names import BARE, FLOOR, OURS, is_other
from .medians import Figures

#: A rate of at least this part of the floor's counts as the floor's.
CLOSE = 0.95
#: Groups whose second line in a cell is the median of the ratios within each round, with two digits.
PRECISE = "floor and first"


@dataclass(frozen=True)
class Standing:
    """One row: Pinyon's contestant, the fastest other client of its concurrency model, and the ratios to it and the floor.

    The factor is that of the two rates, so that a reader who divides them finds it.
    """

    row: str
    ours: str
    rate: float
    other: str
    other_rate: float
    factor: float
    same: bool
    of_floor: float | None


def standing(figures: Figures, row: str, ours: str) -> Standing | None:
    """Returns how a contestant of Pinyon's compares in a row; None where it or every other client has no figure."""
    found = figures.in_row(row)
    others = {name: each for name, each in found.items() if _is_rival(name, ours)}
    if ours not in found or not others:
        return None
    other = max(others, key=lambda name: others[name].rate)
    return Standing(
        row,
        ours,
        found[ours].rate,
        other,
        others[other].rate,
        found[ours].rate / others[other].rate,
        others[other].same,
        floor_share(figures, row, ours),
    )


def _is_rival(name: str, ours: str) -> bool:
    return is_other(name) and not name.startswith(BARE) and model_of(name) == model_of(ours)


def floor_share(figures: Figures, row: str, ours: str) -> float | None:
    """Returns which part of the floor's rate a contestant of Pinyon's reaches; None without a floor."""
    found = figures.in_row(row)
    if ours not in found or FLOOR not in found:
        return None
    if _is_precise(row):
        return found[ours].ratio
    return found[ours].rate / found[FLOOR].rate


def _is_precise(row: str) -> bool:
    return row in _precise_rows()


@lru_cache(maxsize=1)
def _precise_rows() -> set[str]:
    return {row.name for row in all_rows(False) if GROUPS[row.group].beside == PRECISE}


def close_to_floor(figures: Figures) -> list[str]:
    """Returns the rows in which Pinyon reaches the floor's rate, or nearly."""
    rows = dict.fromkeys(row for row, _ in figures.rates)
    ours = {row: [name for name in figures.in_row(row) if name.split()[0] == OURS] for row in rows}
    return [
        row
        for row, names in ours.items()
        if any((share := floor_share(figures, row, name)) is not None and share >= CLOSE for name in names)
    ]


def behind_bare_socket(figures: Figures) -> tuple[int, list[str]]:
    """Returns in how many rows a bare socket in Python was timed, and those where it was faster beyond noise."""
    timed = {row: figure for (row, name), figure in figures.rates.items() if name == BARE}
    return len(timed), [row for row, each in timed.items() if each.ratio and each.ratio > 1 and not each.same]


def slower(figures: Figures) -> Iterator[Standing]:
    """Gives the rows in which another client of the same concurrency model is faster, beyond noise and CLOSE."""
    for row, ours in dict.fromkeys(figures.rates):
        # `Pinyon pure` is a fallback for servers without scripts; its rows are in the tables.
        if ours.split()[0] != OURS or "pure" in ours.split():
            continue
        found = standing(figures, row, ours)
        if found and found.factor < CLOSE and not found.same:
            yield found
