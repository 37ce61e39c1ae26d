"""pylibmc: Python over libmemcached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pylibmc

from ..calls import Adapter, Calls
from ..protocol import Kind

VERSION = f"{pylibmc.__version__} (libmemcached {pylibmc.libmemcached_version})"
BEHAVIORS = {"tcp_nodelay": True, "ketama_weighted": True}
QUIET_BEHAVIORS = {**BEHAVIORS, "no_block": True, "buffer_requests": True, "_noreply": True}
SETTINGS = "text protocol, tcp_nodelay, ketama_weighted"
BUFFERED = "error 32 "
#: As many clients as the most threads that take one.
SLOTS = 32


def connect(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    client = pylibmc.Client(servers, behaviors=QUIET_BEHAVIORS if quiet else BEHAVIORS)

    def incr_or_create(key: str, delta: int, initial: int) -> Any:
        try:
            return client.incr(key, delta)
        except pylibmc.NotFound:
            return initial if client.add(key, initial) else client.incr(key, delta)

    def delete_buffered(key: str) -> Any:
        """pylibmc raises for a delete that libmemcached has buffered, although nothing is wrong."""
        try:
            return client.delete(key)
        except pylibmc.Error as error:
            if not str(error).startswith(BUFFERED):
                raise
            return True

    delete = delete_buffered if quiet else client.delete
    return Calls.of(client, "get_multi", "disconnect_all", delete=delete, incr_or_create=incr_or_create)


def _pool(says: str, make: Callable[[Any], Any], clients: Callable[[Any], Iterable[Any]]) -> Adapter:
    """A pool, from which a thread takes a client for each call, as pylibmc's manual shows."""
    return Adapter(VERSION, f"{says}; {SETTINGS}", partial(_connect_pool, make, clients))


def _connect_pool(
    make: Callable[[Any], Any], clients: Callable[[Any], Iterable[Any]], servers: list[str], kind: Kind, quiet: bool
) -> Calls:
    reserve = (pool := make(pylibmc.Client(servers, behaviors=BEHAVIORS))).reserve

    def get(key: str) -> Any:
        with reserve() as client:
            return client.get(key)

    def set(key: str, value: bytes) -> Any:
        with reserve() as client:
            return client.set(key, value)

    def close() -> None:
        for client in clients(pool):
            client.disconnect_all()

    return Calls(get=get, set=set, close=close)


ADAPTER = Adapter(VERSION, f"{SETTINGS}; quiet: no_block, buffer_requests, _noreply", connect)
CLIENT_POOL = _pool(
    f"ClientPool of {SLOTS}", lambda client: pylibmc.ClientPool(client, SLOTS), lambda pool: list(pool.queue)
)
THREAD_MAPPED_POOL = _pool(
    "ThreadMappedPool, a client for each thread", pylibmc.ThreadMappedPool, lambda pool: list(pool.values())
)
