"""Holders that go on without their lock while the server is away (``on_failure``)."""

from __future__ import annotations

from typing import Any

import pytest
from locking import nothing_left, queued
from models import Model, every_model
from servers import Redis
from test_events import Watcher

import pinyon

#: A server that has just gone has so many seconds to come back.
SOON = 2


@every_model
async def test_work_goes_on_while_the_server_is_away_and_is_alone_again_when_it_is_back(
    model: Model, own_redis: Redis, locks_on: Any
) -> None:
    watcher = Watcher()
    locks, others = locks_on(own_redis, command_timeout=SOON, on_event=watcher), locks_on(own_redis)
    async with locks.lock("a", on_failure="proceed") as held:
        assert held.is_certain
        assert held.token > 0
    assert held.is_certain
    own_redis.stop()
    async with locks.lock("a", on_failure="proceed", timeout=600) as held:
        assert (held.is_certain, held.is_lost, held.token) == (False, True, 0)
        with pytest.raises(pinyon.LockLost, match="as the servers were away"):
            held.check()
        assert await held.extend(5) is False
    proceeded = await watcher.has(model, "proceeded")
    assert isinstance(proceeded.error, pinyon.ConnectError)
    assert proceeded.line.startswith('the lock "a" is uncertain, and its holder goes on, as on_failure says: ')
    assert locks.metrics().proceeded == 1
    with pytest.raises(pinyon.ConnectError):
        async with locks.lock("a", timeout=0.1):
            pytest.fail("only who says so goes on")
    own_redis.restart()

    async def is_certain() -> bool:
        async with locks.lock("a", on_failure="proceed") as held:
            return held.is_certain

    await model.until(is_certain)
    async with locks.lock("a"):
        with pytest.raises(pinyon.LockTimeout):
            await others.lock("a", on_failure="proceed", timeout=0).acquire()
    await nothing_left(model, own_redis)


@every_model
async def test_a_waiter_goes_on_when_the_server_goes(model: Model, own_redis: Redis, locks_on: Any) -> None:
    locks, others = locks_on(own_redis), locks_on(own_redis, command_timeout=SOON)
    await locks.lock("a").acquire()
    waiter = model.spawn(others.lock("a", "b", on_failure="proceed", timeout=600).acquire())
    await model.until(lambda: queued(own_redis) == 2)
    own_redis.stop()
    held = await model.join(waiter)
    assert not held.is_certain
    assert await held.release() is False


@every_model
async def test_a_lock_that_is_lost_because_of_the_server_ends_quietly_and_one_that_is_taken_away_does_not(
    model: Model, redis: Redis, locks_on: Any
) -> None:
    locks, told = locks_on(redis), list[Any]()
    async with locks.lock("a", on_failure="proceed", on_lost=told.append) as held:
        assert redis.ask("DEL", "{pinyon}:l:a") == 1
        assert await held.extend(5) is False
        assert (held.is_certain, held.is_lost) == (False, True)
    await model.until(lambda: len(told) == 1)
    assert locks.metrics().proceeded == 1
    with pytest.raises(pinyon.LockLost, match="released by force"):
        async with locks.lock("a", on_failure="proceed") as held:
            assert await locks.force_release("a") == 1
    assert not held.is_certain
    assert locks.metrics().proceeded == 1


@every_model
async def test_the_word_must_be_one_of_two(model: Model, redis: Redis, locks_on: Any) -> None:
    locks = locks_on(redis)
    for ask in (locks.lock, locks.read):
        with pytest.raises(pinyon.UsageError, match='on_failure must be "raise" or "proceed"'):
            ask("a", on_failure="ignore")
    with pytest.raises(pinyon.UsageError, match="on_failure"):
        locks.permits("a", limit=3, on_failure="ignore")
