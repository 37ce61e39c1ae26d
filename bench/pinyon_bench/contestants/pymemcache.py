"""pymemcache: pure Python."""

from __future__ import annotations

from functools import partial
from typing import Any

import pymemcache
from pymemcache import serde

from ..calls import Calls, adding
from ..protocol import Kind


class PymemcacheAdapter:
    """`Client` for one server, `HashClient` for several. Bytes are sent unchanged, other values by its own serde."""

    def version(self) -> str:
        return str(pymemcache.__version__)

    def configuration(self) -> str:
        return "Client, HashClient for several servers; no_delay; pickle_serde except for bytes; quiet: noreply"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        options = {
            "no_delay": True,
            "default_noreply": quiet,
            "serde": None if kind == "bytes" else serde.pickle_serde,
        }
        if len(servers) == 1:
            client: Any = pymemcache.Client(servers[0], **options)
        else:
            client = pymemcache.HashClient(servers, **options)

        counts: dict[str, Any] = {
            name: partial(getattr(client, name), noreply=False) for name in ("incr", "decr") if quiet
        }
        return Calls.of(client, incr_or_create=adding(client, str), **counts)


class PymemcachePooledAdapter:
    """`PooledClient`, shared by threads. Its pool grows to one connection per thread."""

    def version(self) -> str:
        return str(pymemcache.__version__)

    def configuration(self) -> str:
        return "PooledClient, pool without limit, no_delay"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        client = pymemcache.PooledClient(servers[0], no_delay=True, default_noreply=False)
        return Calls(get=client.get, set=client.set, close=client.close)


class PymemcacheGreenletsAdapter(PymemcachePooledAdapter):
    """The same with sockets and locks patched by gevent, shared by greenlets."""

    def configuration(self) -> str:
        return "PooledClient, pool without limit, monkey-patched, no_delay"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        from gevent import monkey

        monkey.patch_all(ssl=False)
        return super().connect(servers, kind, quiet)


ADAPTER = PymemcacheAdapter()
POOLED = PymemcachePooledAdapter()
GREENLETS = PymemcacheGreenletsAdapter()
