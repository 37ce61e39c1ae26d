"""aiomcache: asyncio in pure Python. Its client has a pool; a connection serves one operation at a time."""

from __future__ import annotations

from importlib.metadata import version

import aiomcache

from ..calls import Adapter, Calls
from ..coroutines.rows import POOL
from ..protocol import address_of


async def connect(server: str, connections: int) -> Calls:
    client = aiomcache.Client(*address_of(server), pool_size=connections)
    return Calls(get=client.get, set=client.set, close=client.close, keys=str.encode)


ADAPTER = Adapter(version("aiomcache"), POOL, connect)
