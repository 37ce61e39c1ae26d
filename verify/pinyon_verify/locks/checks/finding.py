"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something that must not be, or only for the reason that excuses it."""

    check: str
    at: int
    text: str
    excuse: str | None = None
