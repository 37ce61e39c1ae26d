"""Asks libmemcached itself, by its C interface."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Collection, Iterator, Sequence

import pytest

from other_rings.fleets import Fleet

#: Constants from libmemcached's headers.
HASH, KETAMA, DISTRIBUTION, KETAMA_WEIGHTED = 2, 3, 9, 16
FAILURE_LIMIT, AUTO_EJECT, DEAD_TIMEOUT = 21, 28, 36
MD5 = 1
SPY = 4
NAMESPACE = 0
SERVER_MARKED_DEAD = 35

MODULA: dict[int, int] = {}
OF_KETAMA = {KETAMA: 1}
OF_KETAMA_MD5 = {HASH: MD5, KETAMA: 1}
OF_WEIGHTED = {KETAMA_WEIGHTED: 1}
OF_SPY = {KETAMA_WEIGHTED: 1, DISTRIBUTION: SPY}


def places(
    behaviors: dict[int, int], fleet: Fleet, keys: Sequence[bytes], dead: Collection[int] = ()
) -> list[int | None]:
    with _client(fleet, {**behaviors, **({AUTO_EJECT: 1, FAILURE_LIMIT: 1, DEAD_TIMEOUT: 1000} if dead else {})}) as (
        library,
        client,
    ):
        for server in dead:
            _eject(library, client, server)
        return [library.memcached_generate_hash(client, key, len(key)) for key in keys]


@contextlib.contextmanager
def _client(fleet: Fleet, behaviors: dict[int, int]) -> Iterator[tuple[ctypes.CDLL, int]]:
    library = _library()
    client = library.memcached_create(None)
    try:
        for behavior, value in behaviors.items():
            assert library.memcached_behavior_set(client, behavior, value) == 0
        for server in fleet.servers:
            host = server.host.encode()
            if server.port is None:
                assert library.memcached_server_add_unix_socket_with_weight(client, host, server.weight) == 0
            else:
                assert library.memcached_server_add_with_weight(client, host, server.port, server.weight) == 0
        if fleet.namespace:
            assert library.memcached_callback_set(client, NAMESPACE, fleet.namespace.encode()) == 0
        yield library, client
    finally:
        library.memcached_free(client)


def _eject(library: ctypes.CDLL, client: int, server: int) -> None:
    """Makes the server, where nothing listens, fail until libmemcached ejects it."""
    candidates = (f"key-{number}".encode() for number in range(100_000))
    key = next(key for key in candidates if library.memcached_generate_hash(client, key, len(key)) == server)
    outcomes = (library.memcached_set(client, key, len(key), b"", 0, 0, 0) for _ in range(3))
    assert SERVER_MARKED_DEAD in outcomes  # and nothing is tried after that: another server would be the next to fail


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libmemcached.so.11")
    except OSError:
        pytest.skip("libmemcached is not installed (libmemcached-dev)")
    client, text, length = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    library.memcached_create.argtypes = [client]
    library.memcached_create.restype = client
    library.memcached_free.argtypes = [client]
    library.memcached_behavior_set.argtypes = [client, ctypes.c_int, ctypes.c_uint64]
    library.memcached_callback_set.argtypes = [client, ctypes.c_int, text]
    library.memcached_server_add_with_weight.argtypes = [client, text, ctypes.c_uint16, ctypes.c_uint32]
    library.memcached_server_add_unix_socket_with_weight.argtypes = [client, text, ctypes.c_uint32]
    library.memcached_generate_hash.argtypes = [client, text, length]
    library.memcached_generate_hash.restype = ctypes.c_uint32
    library.memcached_set.argtypes = [client, text, length, text, length, ctypes.c_long, ctypes.c_uint32]
    return library
