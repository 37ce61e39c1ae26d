"""emcache: asyncio over a Cython parser, with or without gathering the gets of one turn of the loop."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.metadata import version
from typing import Any

import emcache

from ..calls import Adapter, Calls
from ..coroutines.rows import POOL
from ..protocol import address_of

CONNECT_SECONDS = 15.0
POLL_SECONDS = 0.005
BATCH_KEYS = 32


async def connect(autobatching: bool, server: str, connections: int) -> Calls:
    """Fills the pool at the start. Otherwise it opens connections one by one while operations already wait."""
    client = await emcache.create_client(
        [emcache.MemcachedHostAddress(*address_of(server))],
        timeout=None,
        max_connections=connections,
        min_connections=connections,
        purge_unused_connections_after=None,
        autobatching=autobatching,
        autobatching_max_keys=BATCH_KEYS,
    )
    await asyncio.wait_for(_filled(client, connections), CONNECT_SECONDS)

    async def get(key: bytes) -> Any:
        item = await client.get(key)
        return None if item is None else item.value

    return Calls(get=get, set=client.set, close=client.close, stored=None, keys=str.encode)


async def _filled(client: Any, connections: int) -> None:
    """Waits until the pool has all its connections."""
    while True:
        pools = client.cluster_managment().connection_pool_metrics().values()
        if all(pool.cur_connections >= connections for pool in pools):
            return
        await asyncio.sleep(POLL_SECONDS)


def _adapter(autobatching: bool, says: str) -> Adapter:
    settings = f"{says}; {POOL}, all opened before the clock; no timeout, no purging"
    return Adapter(version("emcache"), settings, partial(connect, autobatching))


PLAIN = _adapter(False, "no autobatching")
AUTOBATCH = _adapter(True, f"autobatching, {BATCH_KEYS} keys")
