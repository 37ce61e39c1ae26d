"""redis-py's own lock: SET NX, repeated every 0.1 seconds."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import redis
import redis.asyncio

from ...protocol import address_of
from ..calls import LockCalls, Patched, nested, nested_async


class RedisPyAdapter:
    """`Redis.lock` of a client with its default pool, which opens a connection for each worker."""

    def version(self) -> str:
        return f"{version('redis')} (hiredis {version('hiredis')})"

    def configuration(self) -> str:
        return "Redis.lock(name, timeout), defaults (tries every 0.1 s); many names: nested, sorted"

    def connect(self, server: str, ttl: int) -> Any:
        host, port = address_of(server)
        client = redis.Redis(host, port)

        def single(name: str) -> Any:
            return client.lock(name, timeout=ttl)

        return LockCalls(nested(single), client.execute_command, client.close)


class RedisPyAsyncAdapter(RedisPyAdapter):
    """`redis.asyncio`."""

    async def connect(self, server: str, ttl: int) -> LockCalls:
        host, port = address_of(server)
        client = redis.asyncio.Redis(host=host, port=port)

        def single(name: str) -> Any:
            return client.lock(name, timeout=ttl)

        return LockCalls(nested_async(single), client.execute_command, client.aclose)


ADAPTER = RedisPyAdapter()
GEVENT = Patched(ADAPTER)
ASYNCIO = RedisPyAsyncAdapter()
