"""meta-memcache: Python with a Rust extension for the meta protocol."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import meta_memcache
from meta_memcache import CacheClient, ServerAddress, connection_pool_factory_builder
from meta_memcache.extras.probabilistic_hot_cache import ProbabilisticHotCache

from ..calls import Adapter, Calls, nothing
from ..protocol import Kind, address_of

READ_BUFFER = 1 << 18
#: Seconds for which a value is fresh, and since when at most an item was asked for to be hot.
FRESH, LONG = 1, 3600
new_pool = connection_pool_factory_builder(no_delay=True, read_buffer_size=READ_BUFFER)


class PlainSerializer(meta_memcache.MixedSerializer):  # type: ignore[misc]
    """The library's serializer without compression, like all other clients here."""

    COMPRESSION_THRESHOLD = 1 << 30


class BytesSerializer(PlainSerializer):
    """Values without flags are bytes, not text. The library cannot count with it."""

    STR, BINARY = meta_memcache.MixedSerializer.BINARY, meta_memcache.MixedSerializer.STR


def connect_client(servers: list[str], serializer: type[PlainSerializer] = PlainSerializer) -> Any:
    """The read buffer is larger than the default of 4096 bytes, with which a larger value stalled each get for 90 ms."""
    return CacheClient.cache_client_from_servers(
        servers=[ServerAddress(*address_of(name)) for name in servers],
        connection_pool_factory_fn=new_pool,
        serializer=serializer(pickle_protocol=pickle.HIGHEST_PROTOCOL),
    )


def connect(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    """It has no close: dropping the client closes its sockets."""
    client = connect_client(servers)

    def incr_or_create(key: str, delta: int, initial: int) -> Any:
        return client.delta_initialize_and_get(key, delta, initial, 0)

    def decr(key: str, delta: int) -> Any:
        return client.delta_and_get(key, -delta)

    def store(mode: Any) -> Any:
        return partial(client.set, ttl=0, no_reply=quiet, set_mode=mode)

    return Calls(
        get=client.get,
        set=partial(client.set, ttl=0, no_reply=quiet),
        close=nothing,
        add=store(meta_memcache.SetMode.ADD),
        replace=store(meta_memcache.SetMode.REPLACE),
        delete=partial(client.delete, no_reply=True) if quiet else client.delete,
        get_many=client.multi_get,
        incr=client.delta_and_get,
        decr=decr,
        incr_or_create=incr_or_create,
        found=_found,
    )


def connect_hot_cache(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    """Keeps all that is read: the server says of each item that it was asked for a moment ago, and one in one of these is kept."""
    client = ProbabilisticHotCache(
        connect_client(servers, BytesSerializer),
        store={},
        cache_ttl=FRESH,
        max_last_access_age_seconds=LONG,
        probability_factor=1,
    )
    return Calls(get=client.get, set=partial(client.set, ttl=0), close=nothing)


def _found(reply: Any) -> dict[str, Any]:
    return {key.key: value for key, value in reply.items() if value is not None}


SETTINGS = (
    f"own socket factory, no_delay, read_buffer_size {READ_BUFFER}, HashRing, MixedSerializer uncompressed, "
    f"pickle protocol {pickle.HIGHEST_PROTOCOL}; quiet: no_reply"
)
ADAPTER = Adapter(str(meta_memcache.__version__), SETTINGS, connect)
HOT_CACHE = Adapter(
    str(meta_memcache.__version__),
    f"ProbabilisticHotCache, cache_ttl {FRESH}, probability_factor 1, max_last_access_age_seconds {LONG}; the rest as above",
    connect_hot_cache,
)
