"""The finding of a check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A violation, or something allowed only for the given excuse."""

    check: str
    at: int
    text: str
    excuse: str | None = None
