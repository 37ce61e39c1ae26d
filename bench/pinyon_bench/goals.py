"""What a target is, and how one says what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .compare import Ratio

OURS = "Pinyon"


@dataclass(frozen=True)
class Target:
    """One target in words, what was measured, and whether that meets it."""

    text: str
    measured: str
    met: bool
    spread: str = ""


def at_least(row: str, what: str, found: Ratio | None, wanted: float) -> Iterator[Target]:
    """The target that a ratio is at least so much; none when it was not measured."""
    if found:
        met = found.middle >= wanted
        yield Target(f"{row}: at least {wanted:g} {what}", f"{found.middle:.3f}", met, spread_of(found))


def spread_of(found: Ratio) -> str:
    """Returns the lowest and highest ratio as shown."""
    return f"{found.low:.2f}–{found.high:.2f}"
