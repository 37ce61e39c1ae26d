"""Waiting for a change by other holders of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from locking import nothing_left
from models import Model, every_model
from servers import Redis

import pinyon

LocksOn = Callable[..., Any]


def parked(redis: Redis) -> int:
    count: int = redis.ask("ZCARD", "{pinyon}:#n")
    return count


async def take_one(locks: Any, items: list[int]) -> int:
    async with locks.lock("a", "b", timeout=60) as held:
        while not items:
            assert await held.wait(60) is True
            held.check()
        return items.pop(0)


@every_model
async def test_waiting_for_a_predicate(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    items: list[int] = []

    async def wait(timeout: float | None) -> Any:
        async with locks.lock("a") as held:
            return await held.wait_for(lambda: sum(items) > 2 and sum(items), timeout)

    task = model.spawn(wait(None))
    for count in range(1, 4):
        await model.until(lambda: parked(redis) == 1)
        async with others.lock("a") as held:
            items.append(1)
            assert await held.notify() == 1, count
    assert await model.join(task) == 3
    assert await wait(0) == 3
    items.clear()
    assert await wait(0.2) is False
    await nothing_left(model, redis)


@every_model
async def test_a_lock_taken_twice_is_given_back_by_waiting_and_had_twice_again(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    lock = locks_on(redis, reentrant=True).lock("a", "b")
    others = locks_on(redis)

    async def wait() -> list[int]:
        async with lock as outer:
            async with lock as inner:
                before = inner.token
                assert await inner.wait(60) is True
                tokens = [before, inner.token, outer.token]
                inner.check()
            outer.check()
            assert await others.try_lock("a") is None
        return tokens

    task = model.spawn(wait())
    await model.until(lambda: parked(redis) == 1)
    async with others.lock("a", "b") as held:
        assert await held.notify() == 1
        between = held.token
    before, inner, outer = await model.join(task)
    assert before < between < inner == outer
    await nothing_left(model, redis)


@every_model
async def test_a_lock_taken_twice_that_is_not_had_again_is_lost_as_a_whole(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    lock, others = locks_on(redis, reentrant=True, timeout=2).lock("a"), locks_on(redis)

    async def wait() -> None:
        async with lock as outer:
            with pytest.raises(pinyon.LockTimeout):
                async with lock as inner:
                    await inner.wait(4)
            assert outer.is_lost

    task = model.spawn(wait())
    await model.until(lambda: parked(redis) == 1)
    async with others.lock("a"):
        with pytest.raises(pinyon.LockLost, match="was lost before it was released"):
            await model.join(task)
    await nothing_left(model, redis)


@every_model
async def test_notifying_nobody_is_refused(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    async with locks_on(redis).lock("a") as held:
        with pytest.raises(pinyon.UsageError, match="count must be at least 1, not 0"):
            await held.notify(0)
