"""What a contestant finds wrong itself, while it is timed."""

from __future__ import annotations

from typing import Any


class WrongResult(Exception):
    """A client's reply was wrong."""


def expect(what: str, key: Any, reply: Any, wanted: Any) -> None:
    """Raises WrongResult when a reply is not the one wanted."""
    if reply != wanted:
        raise WrongResult(f"{what} {_short(key)} answered {_short(reply)} instead of {_short(wanted)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
