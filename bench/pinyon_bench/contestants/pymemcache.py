"""pymemcache: pure Python."""

from __future__ import annotations

from functools import partial
from typing import Any

import pymemcache
from pymemcache import serde

from ..calls import Adapter, Calls, adding
from ..protocol import Kind

VERSION = str(pymemcache.__version__)


def connect(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    """`Client` for one server, `HashClient` for several. Bytes are sent unchanged, other values by its own serde."""
    serializer = None if kind == "bytes" else serde.pickle_serde
    options: dict[str, Any] = {"no_delay": True, "default_noreply": quiet, "serde": serializer}
    is_single = len(servers) == 1
    client: Any = pymemcache.Client(servers[0], **options) if is_single else pymemcache.HashClient(servers, **options)
    counts: dict[str, Any] = {name: partial(getattr(client, name), noreply=False) for name in ("incr", "decr") if quiet}
    return Calls.of(client, incr_or_create=adding(client, str), **counts)


def connect_pool(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    """Its pool grows to one connection per thread, or greenlet."""
    client = pymemcache.PooledClient(servers[0], no_delay=True, default_noreply=False)
    return Calls(get=client.get, set=client.set, close=client.close)


ADAPTER = Adapter(
    VERSION, "Client, HashClient for several servers; no_delay; pickle_serde except for bytes; quiet: noreply", connect
)
POOLED = Adapter(VERSION, "PooledClient, pool without limit, no_delay", connect_pool)
GREENLETS = POOLED.patched()
