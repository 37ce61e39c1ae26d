"""aiomcache: asyncio in pure Python."""

from __future__ import annotations

from importlib.metadata import version

import aiomcache

from ..calls import Calls
from ..coroutines.rows import POOL
from ..protocol import address_of


class AiomcacheAdapter:
    """Its client has a pool; a connection serves one operation at a time."""

    def version(self) -> str:
        return version("aiomcache")

    def configuration(self) -> str:
        return POOL

    async def connect(self, server: str, connections: int) -> Calls:
        host, port = address_of(server)
        client = aiomcache.Client(host, port, pool_size=connections)
        return Calls(get=client.get, set=client.set, close=client.close, keys=str.encode)


ADAPTER = AiomcacheAdapter()
