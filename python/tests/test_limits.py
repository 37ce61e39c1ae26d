"""The storage for the package ``limits``: fixed and moving windows, for threads and asyncio."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any

import limits
import limits.aio.storage
import limits.aio.strategies
import limits.errors
import limits.storage
import limits.strategies
import pytest
from servers import Redis
from waiting import PATIENT

import pinyon
import pinyon.frameworks.limits

SCHEMES = ["pinyon", "async+pinyon"]
every_storage = pytest.mark.parametrize("scheme", SCHEMES)
every_strategy = pytest.mark.parametrize("strategy", ["FixedWindowRateLimiter", "MovingWindowRateLimiter"])


class Both:
    """A storage or a limiter, whose methods can be awaited."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **settings: Any) -> Any:
            result = getattr(self.wrapped, name)(*arguments, **settings)
            return await result if inspect.isawaitable(result) else result

        return call


def storage_on(redis: Redis, scheme: str, **options: Any) -> Any:
    return limits.storage.storage_from_string(redis.url.replace("redis", scheme, 1), **{**PATIENT, **options})


def limiter(redis: Redis, scheme: str, strategy: str, **options: Any) -> Any:
    module = limits.aio.strategies if scheme.startswith("async+") else limits.strategies
    return Both(getattr(module, strategy)(storage_on(redis, scheme, **options)))


@every_strategy
@every_storage
def test_a_window_takes_as_many_hits_as_its_limit(redis: Redis, scheme: str, strategy: str) -> None:
    async def use() -> None:
        limiting, item = limiter(redis, scheme, strategy), limits.parse("3/hour")
        before = time.time()
        assert [await limiting.hit(item, "user") for _ in range(4)] == [True, True, True, False]
        assert not await limiting.test(item, "user")
        assert await limiting.test(item, "other")
        reset, remaining = await limiting.get_window_stats(item, "user")
        assert remaining == 0
        assert before + 3500 < reset <= time.time() + 3601
        assert await limiting.hit(item, "other", cost=2)
        assert not await limiting.hit(item, "other", cost=2) or strategy == "FixedWindowRateLimiter"
        await limiting.clear(item, "user")
        assert await limiting.hit(item, "user")

    asyncio.run(use())


@every_storage
def test_a_moving_window_counts_what_is_in_it(redis: Redis, scheme: str) -> None:
    async def use() -> None:
        storage = Both(storage_on(redis, scheme))
        start, count = await storage.get_moving_window("k", 5, 1000)
        assert count == 0
        assert abs(start - time.time()) < 60
        assert await storage.acquire_entry("k", 5, 1000, 2)
        first, count = await storage.get_moving_window("k", 5, 1000)
        assert count == 2
        assert await storage.acquire_entry("k", 5, 1000, 3)
        assert await storage.get_moving_window("k", 5, 1000) == (first, 5)
        assert not await storage.acquire_entry("k", 5, 1000)
        assert not await storage.acquire_entry("k", 5, 1000, 6)

    asyncio.run(use())


@every_storage
def test_a_moving_window_moves(redis: Redis, scheme: str) -> None:
    async def use() -> None:
        storage = Both(storage_on(redis, scheme))
        begun = time.monotonic()
        assert await storage.acquire_entry("k", 1, 1)
        while not await storage.acquire_entry("k", 1, 1):
            await asyncio.sleep(0.01)
        assert time.monotonic() - begun > 0.99

    asyncio.run(use())


@every_storage
def test_a_fixed_window_ends(redis: Redis, scheme: str) -> None:
    async def use() -> None:
        storage = Both(storage_on(redis, scheme))
        assert await storage.incr("k", 1) == 1
        while await storage.get("k"):
            await asyncio.sleep(0.01)
        assert await storage.incr("k", 100, 5) == 5
        assert await storage.incr("k", 1000, 2) == 7
        assert 0 < await storage.get_expiry("k") - time.time() <= 101

    asyncio.run(use())


@every_storage
def test_a_reset_deletes_the_windows_of_its_namespace_and_no_locks(redis: Redis, scheme: str) -> None:
    async def use() -> None:
        mine, other = (Both(storage_on(redis, scheme, namespace=name)) for name in ("a*", "ab"))
        for number in range(3):
            await mine.incr(f"k{number}", 100)
        await other.incr("k", 100)
        with pinyon.Locks(redis.url, namespace="a*", **PATIENT) as locks, locks.lock("k"):
            assert await mine.reset() == 3
        assert await other.get("k") == 1

    asyncio.run(use())


@every_storage
def test_a_server_that_is_down(own_redis: Redis, scheme: str) -> None:
    async def use() -> None:
        storage = Both(storage_on(own_redis, scheme, wrap_exceptions=True, connect_timeout=1, command_timeout=1))
        assert await storage.check()
        own_redis.stop()
        assert not await storage.check()
        with pytest.raises(limits.errors.StorageError):
            await storage.incr("k", 1)

    asyncio.run(use())


def test_the_url_of_the_server_is_in_that_of_the_storage() -> None:
    for uri, url in [
        ("pinyon://:secret@host:6380/2", "redis://:secret@host:6380/2"),
        ("async+pinyon://host", "redis://host"),
        ("pinyon+rediss://host", "rediss://host"),
        ("async+pinyon+redis+sentinel://a,b,c/service", "redis+sentinel://a,b,c/service"),
    ]:
        assert pinyon.frameworks.limits._url(uri) == url
