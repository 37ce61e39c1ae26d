"""python-memcached: pure Python, the oldest."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import memcache

from ..calls import STORES, Calls, adding
from ..protocol import Kind


class PythonMemcachedAdapter:
    """Its defaults with the highest pickle protocol."""

    def version(self) -> str:
        return str(memcache.__version__)

    def configuration(self) -> str:
        return f"defaults (no TCP_NODELAY), pickle protocol {pickle.HIGHEST_PROTOCOL}; quiet: noreply"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        client = memcache.Client(servers, pickleProtocol=pickle.HIGHEST_PROTOCOL)

        calls = Calls.of(client, "get_multi", "disconnect_all", incr_or_create=adding(client))
        if not quiet:
            return calls
        return replace(calls, **{name: partial(getattr(client, name), noreply=True) for name in (*STORES, "delete")})


ADAPTER = PythonMemcachedAdapter()
