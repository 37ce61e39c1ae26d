"""Asks a contestant as the benchmark does, and returns what it found as a reply."""

from __future__ import annotations

from typing import Any

from pinyon_bench import playing
from pinyon_bench.contestant import ContestantError
from pinyon_bench.playing import Ask


def done(ask: Ask, do: str, row: Any) -> dict[str, Any]:
    """Verifies or times a row, or does another request."""
    if do not in ("verify", "time"):
        return ask({"do": do})
    try:
        return {"ok": True, **{"verify": playing.verify, "time": playing.time}[do](ask, {**row})}
    except ContestantError as error:
        return {"ok": False, **({"cannot": True} if error.cannot else {}), "reason": str(error)}
