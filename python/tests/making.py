"""Makers of values for callers of ``get_or_set``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from models import Asyncio, Model, drive

#: Seconds: longer than any test takes, so that no caller is helped by an expiring lease.
LONG = 1000


class Maker:
    """A ``make`` that waits until the test lets it continue."""

    def __init__(self, model: Model, value: Any, *, held: bool = False) -> None:
        self.model = model
        self.value = value
        self.calls = 0
        self.held = held

    @property
    def make(self) -> Callable[[], Any]:
        """A coroutine function or a plain function, as the model needs."""
        return self._make if isinstance(self.model, Asyncio) else lambda: drive(self._make())

    async def _make(self) -> Any:
        self.calls += 1
        await self.model.until(lambda: not self.held)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    async def begun(self, calls: int = 1) -> None:
        await self.model.until(lambda: self.calls == calls)


class KilledError(BaseException):
    """An exception that ends a caller without being an ``Exception``."""


def following(cache: Any) -> int:
    """How many callers wait for others of their process."""
    return sum(getattr(cache, "wrapped", cache)._flights)


def never() -> Any:
    raise AssertionError("there was something to take")


async def awaited(result: Any) -> Any:
    """The result of a method of a lease, awaited if necessary."""
    return await result if hasattr(result, "__await__") else result
