"""Makers of values, for callers of ``get_or_set``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from models import Asyncio, Model, drive

#: Seconds: longer than any test takes, so that nobody is helped by a lease that ends.
LONG = 1000
#: By when something that is to happen has happened, on slow machines too.
SOON = 60.0


class Maker:
    """A ``make`` that is held until it is let go."""

    def __init__(self, model: Model, value: Any, *, held: bool = False) -> None:
        self.model = model
        self.value = value
        self.calls = 0
        self.held = held

    @property
    def make(self) -> Callable[[], Any]:
        """As the model has it: a coroutine function or a plain one."""
        return self._make if isinstance(self.model, Asyncio) else lambda: drive(self._make())

    async def _make(self) -> Any:
        self.calls += 1
        await until(self.model, lambda: not self.held)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    async def begun(self, calls: int = 1) -> None:
        await until(self.model, lambda: self.calls == calls)


class KilledError(BaseException):
    """Something that ends a caller and is no ``Exception``."""


async def until(model: Model, happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < give_up
        await model.sleep(0.002)


def following(cache: Any) -> int:
    """How many callers wait for others of their process."""
    return sum(getattr(cache, "wrapped", cache)._flights)


def never() -> Any:
    raise AssertionError("there was something to take")


async def awaited(result: Any) -> Any:
    """What a method of a lease returns, or what that gives when it is awaited."""
    return await result if hasattr(result, "__await__") else result
