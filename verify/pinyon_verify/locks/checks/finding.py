"""A check's finding."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something that must not happen, unless its excuse applies."""

    check: str
    at: int
    text: str
    excuse: str | None = None
