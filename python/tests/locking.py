"""What scenarios about locks share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from models import Model
from servers import Redis


async def until(model: Model, condition: Callable[[], Any], within: float = 60.0) -> None:
    """Waits until it is so."""
    give_up = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        await model.sleep(0.002)


async def renewed(model: Model, held: Any) -> None:
    """Waits for a renewal to be confirmed: nothing else makes the remaining time rise."""
    last = held.remaining()

    def has_risen() -> bool:
        nonlocal last
        before, last = last, held.remaining()
        return bool(last > before)

    await until(model, has_risen)


async def nothing_left(model: Model, redis: Redis) -> None:
    """Nobody holds or waits, and the server knows."""
    await until(model, lambda: not redis.left_behind())


def queued(redis: Redis, namespace: str = "pinyon") -> int:
    """How many names are waited for."""
    count: int = redis.ask("ZCARD", f"{{{namespace}}}:#q")
    return count


async def hold(model: Model, locks: Any, names: tuple[str, ...], then: Callable[[], Any], **settings: Any) -> Any:
    """What ``then`` gives while the names are locked."""
    async with locks.lock(*names, **settings):
        return then()
