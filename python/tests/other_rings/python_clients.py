"""The rings of other Python clients, determined with their own objects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import libmc
import memcache
from emcache._cython import cyemcache
from meta_memcache import Key as MetaKey
from meta_memcache import ServerAddress
from meta_memcache.connection.providers import HashRingConnectionPoolProvider
from pymemcache.client.hash import HashClient

from other_rings.fleets import Fleet


def python_memcached(fleet: Fleet, keys: Sequence[bytes], dead: Collection[int] = ()) -> list[int | None]:
    servers = [f"unix:{server.host}" if server.port is None else f"inet:{server.place}" for server in fleet.servers]
    weighted = [(name, server.weight) for name, server in zip(servers, fleet.servers)]
    client = memcache.Client(weighted)
    for index, server in enumerate(client.servers):
        server.connect = lambda connects=index not in dead: connects
        server.index = index
    found = (client._get_server(key)[0] for key in keys)
    return [server and server.index for server in found]


def pymemcache(fleet: Fleet, keys: Sequence[str | bytes], dead: Collection[int] = ()) -> list[int | None]:
    servers: list[Any] = [(s.host, s.port) if s.port is not None else s.host for s in fleet.servers]
    client = HashClient(servers, key_prefix=fleet.namespace.encode(), allow_unicode_keys=True)
    names = list(client.clients)
    for server in dead:
        client.hasher.remove_node(names[server])
    return [names.index(client.hasher.get_node(key)) for key in keys]


def libmc_client(fleet: Fleet, keys: Sequence[str], dead: Collection[int] = ()) -> list[int | None]:
    """With ``dead``, the fleet's other servers must be running."""
    client = libmc.Client(fleet.places, prefix=fleet.namespace or None, failover=bool(dead))
    ask = client.get_realtime_host_by_key if dead else client.get_host_by_key
    places = {place.encode(): index for index, place in enumerate(fleet.places)}
    return [places[_bytes(ask(key))] for key in keys]


def meta_memcache(fleet: Fleet, keys: Sequence[str], dead: Collection[int] = ()) -> list[int | None]:
    addresses = {ServerAddress(server.host, server.port): index for index, server in enumerate(fleet.servers)}
    provider = HashRingConnectionPoolProvider(addresses)
    places = (provider.get_pool(MetaKey(key)) for key in keys)
    return [None if place in dead else place for place in places]


def emcache(fleet: Fleet, keys: Sequence[bytes], dead: Collection[int] = ()) -> list[int | None]:
    def name(host: str, port: int | None) -> str:
        return host if port is None else f"{host}{port}"

    nodes = [
        cyemcache.RendezvousNode(name(server.host, server.port), index)
        for index, server in enumerate(fleet.servers)
        if index not in dead
    ]
    return [cyemcache.node_selection(key, nodes) for key in keys]


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
