"""limits: rate limits for Flask-Limiter and others, in its cheapest strategy: a counter for each period."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import redis
from limits import RateLimitItemPerSecond
from limits.aio.storage import RedisStorage as AsyncStorage
from limits.aio.strategies import FixedWindowRateLimiter as AsyncLimiter
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter

from ...calls import Adapter, CannotDo, nothing
from ..calls import LockCalls, Names
from ..workloads import RATE_LIMIT

ITEM = RateLimitItemPerSecond(RATE_LIMIT)
VERSION = f"{version('limits')} (redis-py {version('redis')})"
SETTINGS = "FixedWindowRateLimiter(RedisStorage), defaults"


def no_lock(_: Names) -> Any:
    raise CannotDo("it has no locks")


def connect(server: str, ttl: int) -> LockCalls:
    limiter = FixedWindowRateLimiter(RedisStorage(f"redis://{server}"))
    return LockCalls(
        no_lock, redis.Redis.from_url(f"redis://{server}").execute_command, nothing, allow=lambda: limiter.hit(ITEM)
    )


async def connect_tasks(server: str, ttl: int) -> LockCalls:
    limiter = AsyncLimiter(AsyncStorage(f"async+redis://{server}", implementation="redispy"))
    execute = redis.asyncio.Redis.from_url(f"redis://{server}").execute_command

    async def close() -> None:
        """Its storage has nothing to close it with."""

    return LockCalls(no_lock, execute, close, allow=lambda: limiter.hit(ITEM))


ADAPTER = Adapter(VERSION, SETTINGS, connect)
ASYNCIO = Adapter(VERSION, SETTINGS, connect_tasks)
