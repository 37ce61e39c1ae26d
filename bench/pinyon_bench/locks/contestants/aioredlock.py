"""aioredlock: the Redlock algorithm for asyncio, on the old aioredis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import aioredis
from aioredlock import Aioredlock

from ...calls import Adapter
from ...protocol import address_of
from ..calls import LockCalls, nested_async

#: It cannot wait forever; the default is three tries.
TRIES = 1_000_000


async def connect(server: str, ttl: int) -> LockCalls:
    addresses = [address_of(each) for each in server.split(",")]
    manager = Aioredlock(addresses, retry_count=TRIES)
    client = await aioredis.create_redis_pool(addresses[0])

    @asynccontextmanager
    async def single(name: str) -> AsyncIterator[Any]:
        async with await manager.lock(name, lock_timeout=ttl) as held:
            yield held

    async def close() -> None:
        await manager.destroy()
        client.close()
        await client.wait_closed()

    return LockCalls(nested_async(single), client.execute, close)


ADAPTER = Adapter(
    f"{version('aioredlock')} (aioredis {version('aioredis')})",
    "Aioredlock([servers]), default delay (tries after 0.1 to 0.3 s), tries without end; many names: nested, sorted",
    connect,
)
