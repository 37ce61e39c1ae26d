"""Helpers for scenarios about locks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from models import Model
from servers import Redis


async def renewed(model: Model, held: Any) -> None:
    """Waits for a renewal to be confirmed: nothing else makes the remaining time rise."""
    last = held.remaining()

    def has_risen() -> bool:
        nonlocal last
        before, last = last, held.remaining()
        return bool(last > before)

    await model.until(has_risen)


async def still_renewed(model: Model, held: Any) -> None:
    """Waits for a renewal that began after now: of two that are confirmed, the second one did."""
    await renewed(model, held)
    await renewed(model, held)


async def outlived(model: Model, held: Any, ttl: float) -> None:
    """Waits for a renewal that is confirmed after a ttl from now, which takes earlier ones that worked."""
    over = time.monotonic() + ttl
    while time.monotonic() < over:
        await renewed(model, held)


async def nothing_left(model: Model, redis: Redis) -> None:
    """Waits until the server knows of no holder and no waiter."""
    await model.until(lambda: not redis.left_behind())


def queued(redis: Redis, namespace: str = "pinyon") -> int:
    """How many names have waiters."""
    count: int = redis.ask("ZCARD", f"{{{namespace}}}:#q")
    return count


async def hold(model: Model, locks: Any, names: tuple[str, ...], then: Callable[[], Any], **settings: Any) -> Any:
    """Returns the result of ``then``, called while the names are locked."""
    async with locks.lock(*names, **settings):
        return then()
