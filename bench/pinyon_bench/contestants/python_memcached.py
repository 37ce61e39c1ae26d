"""python-memcached: pure Python, the oldest. Its defaults with the highest pickle protocol."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import memcache

from ..calls import STORES, Adapter, Calls, adding
from ..protocol import Kind


def connect(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    client = memcache.Client(servers, pickleProtocol=pickle.HIGHEST_PROTOCOL)
    calls = Calls.of(client, "get_multi", "disconnect_all", incr_or_create=adding(client))
    if not quiet:
        return calls
    return replace(calls, **{name: partial(getattr(client, name), noreply=True) for name in (*STORES, "delete")})


SETTINGS = f"defaults (no TCP_NODELAY), pickle protocol {pickle.HIGHEST_PROTOCOL}; quiet: noreply"
ADAPTER = Adapter(str(memcache.__version__), SETTINGS, connect)
