"""What type checkers see of frameworks that have no types."""

from __future__ import annotations

from typing import Any


class Untyped:
    """A base class with any arguments and attributes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None: ...

    def __getattr__(self, name: str) -> Any: ...
