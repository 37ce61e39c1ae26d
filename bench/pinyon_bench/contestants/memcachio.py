"""memcachio: asyncio in pure Python, with requests in flight on a connection."""

from __future__ import annotations

from typing import Any

import memcachio

from ..calls import Adapter, Calls
from ..coroutines.rows import POOL
from ..protocol import address_of

IDLE_SECONDS = 3600.0


async def connect(server: str, connections: int) -> Calls:
    client = memcachio.Client(
        address_of(server), max_connections=connections, socket_nodelay=True, idle_connection_timeout=IDLE_SECONDS
    )

    async def get(key: bytes) -> Any:
        """Its `get` takes several keys and returns a dict; here it gets one key."""
        item = (await client.get(key)).get(key)
        return None if item is None else item.value

    async def close() -> None:
        client.connection_pool.close()

    return Calls(get=get, set=client.set, close=close, keys=str.encode)


SETTINGS = f"{POOL}; socket_nodelay, idle_connection_timeout {IDLE_SECONDS:g}"
ADAPTER = Adapter(str(memcachio.__version__), SETTINGS, connect)
