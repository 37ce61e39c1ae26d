"""redis-py's own lock: SET NX, repeated every 0.1 seconds. The client's pool opens a connection for each worker."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import redis
import redis.asyncio

from ...calls import Adapter
from ...protocol import address_of
from ..calls import LockCalls, nested, nested_async

VERSION = f"{version('redis')} (hiredis {version('hiredis')})"
SETTINGS = "Redis.lock(name, timeout), defaults (tries every 0.1 s); many names: nested, sorted"


def connect(server: str, ttl: int) -> LockCalls:
    client = redis.Redis(*address_of(server))

    def single(name: str) -> Any:
        return client.lock(name, timeout=ttl)

    return LockCalls(nested(single), client.execute_command, client.close)


async def connect_tasks(server: str, ttl: int) -> LockCalls:
    host, port = address_of(server)
    client = redis.asyncio.Redis(host=host, port=port)

    def single(name: str) -> Any:
        return client.lock(name, timeout=ttl)

    return LockCalls(nested_async(single), client.execute_command, client.aclose)


ADAPTER = Adapter(VERSION, SETTINGS, connect)
GEVENT = ADAPTER.patched()
ASYNCIO = Adapter(VERSION, SETTINGS, connect_tasks)
