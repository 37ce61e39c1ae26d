"""Other clients, as writers and readers of values.

A peer stores its language's values under ``theirs:NAME``, and shows how it reads those under ``ours:NAME``. Peers
in other languages are scripts in this folder. Each runs in a process, takes the server and the names to read as
JSON, and prints ``{"version": …, "wrote": [NAME, …], "read": {NAME: TEXT, …}}``.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import libmc
import memcache
import meta_memcache
import pylibmc
import pymemcache
import pytest
from meta_memcache.compression.zstd_manager import ThreadLocalZstdManager
from meta_memcache.serializer import ZstdSerializer
from pymemcache.serde import CompressedSerde
from servers import Memcached

HERE = Path(__file__).parent


class Label(str):
    """A subclass of str. Some clients store it as text, others pickle it."""

    __slots__ = ()


#: Clients with compression compress longer values.
THRESHOLD = 10_000
LONG = "a value like any other, " * 1000

#: Other algorithms that Pinyon uses for a peer, under ``ours:long-ALGORITHM``.
ALGORITHMS: dict[str, list[Any]] = {"meta-memcache": ["zstd"], "dalli": ["gzip"]}

#: The values that Pinyon and the other Python clients store.
VALUES: dict[str, Any] = {
    "bytes": b"\x00\xffbytes",
    "text": "größer 🌲",
    "empty-text": "",
    "integer": 42,
    "negative": -7,
    "large-integer": 2**40,
    "huge-integer": -(2**70),
    "float": 1.5,
    "infinite": math.inf,
    "true": True,
    "false": False,
    "none": None,
    "list": [1, "zwei", None, [2.5]],
    "dict": {"name": "Ada", "größe": 36},
    "tuple": (1, "two"),
    "set": {1},
    "subclass": Label("a str of its own class"),
    "long-text": LONG,
}


class Exchanged(NamedTuple):
    """What a peer wrote and read."""

    version: str
    wrote: list[str]
    #: The text for each value that it read.
    read: dict[str, str]


Peer = Callable[[Memcached, list[str]], Exchanged]


def shown(value: Any) -> str:
    """A Python value in the notation of the tables."""
    if isinstance(value, (str, bytes)) and len(value) > 60:
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)


def _of_python(version: str, store: Callable[[str, Any], object], fetch: Callable[[str], Any]) -> Peer:
    def exchange(server: Memcached, names: list[str]) -> Exchanged:
        for name, value in VALUES.items():
            store(f"theirs:{name}", value)
        read = {}
        for name in names:
            try:
                read[name] = shown(fetch(f"ours:{name}"))
            except Exception as error:
                read[name] = f"{type(error).__name__}: {error}"
        return Exchanged(version, list(VALUES), read)

    return exchange


def _pylibmc(server: Memcached, names: list[str]) -> Exchanged:
    client = pylibmc.Client([server.address])

    def store(key: str, value: Any) -> None:
        client.set(key, value, min_compress_len=THRESHOLD)

    return _of_python(f"pylibmc {pylibmc.__version__}", store, client.get)(server, names)


def _python_memcached(server: Memcached, names: list[str]) -> Exchanged:
    client = memcache.Client([server.address])

    def store(key: str, value: Any) -> None:
        client.set(key, value, min_compress_len=THRESHOLD)

    return _of_python(f"python-memcached {memcache.__version__}", store, client.get)(server, names)


def _pymemcache(server: Memcached, names: list[str]) -> Exchanged:
    serde = CompressedSerde(min_compress_len=THRESHOLD)
    client = pymemcache.Client((server.host, server.port), serde=serde, default_noreply=False)
    return _of_python(f"pymemcache {pymemcache.__version__}", client.set, client.get)(server, names)


def _libmc(server: Memcached, names: list[str]) -> Exchanged:
    client = libmc.Client([server.address], comp_threshold=THRESHOLD)
    return _of_python(f"libmc {libmc.__version__}", client.set, client.get)(server, names)


def meta_memcache_client(server: Memcached, serializer: ZstdSerializer) -> meta_memcache.CacheApi:
    return meta_memcache.CacheClient.cache_client_from_servers(
        servers=[meta_memcache.ServerAddress(server.host, server.port)],
        connection_pool_factory_fn=meta_memcache.connection_pool_factory_builder(),
        serializer=serializer,
    )


def _meta_memcache(server: Memcached, names: list[str]) -> Exchanged:
    key = meta_memcache.Key
    by_zlib, by_zstd = (
        meta_memcache_client(
            server,
            ZstdSerializer(
                ThreadLocalZstdManager(), compression_threshold=THRESHOLD, pickle_protocol=0, default_zstd=zstd
            ),
        )
        for zstd in (False, True)
    )
    by_zstd.set(key("theirs:zstd"), LONG, ttl=600)
    exchanged = _of_python(
        f"meta-memcache {meta_memcache.__version__}",
        lambda name, value: by_zlib.set(key(name), value, ttl=600),
        lambda name: by_zlib.get(key(name)),
    )(server, names)
    return exchanged._replace(wrote=[*exchanged.wrote, "zstd"])


def _script(*command: str, split: bool = False) -> Peer:
    def exchange(server: Memcached, names: list[str]) -> Exchanged:
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        place = [server.host, str(server.port)] if split else [server.address]
        done = subprocess.run(
            [*command, *place, json.dumps(names)],
            # Gives Perl's hashes a fixed order.
            env={**os.environ, "PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode and any(sign in done.stderr for sign in ("cannot load such file", "Can't locate", "Class")):
            pytest.skip(f"a package of {command[0]} is not installed: {done.stderr}")
        assert done.returncode == 0, done.stderr
        return Exchanged(**json.loads(done.stdout))

    return exchange


PEERS: dict[str, Peer] = {
    "pylibmc": _pylibmc,
    "python-memcached": _python_memcached,
    "pymemcache": _pymemcache,
    "meta-memcache": _meta_memcache,
    "libmc": _libmc,
    "dalli": _script("ruby", str(HERE / "dalli.rb")),
    "cache-memcached": _script("perl", str(HERE / "cache_memcached.pl"), "Cache::Memcached"),
    "cache-memcached-fast": _script("perl", str(HERE / "cache_memcached.pl"), "Cache::Memcached::Fast"),
    "php-memcached": _script("php", str(HERE / "php_memcached.php"), split=True),
}

#: Clients that pickle values without a simpler form.
PICKLING = {"pylibmc", "python-memcached", "pymemcache", "meta-memcache", "libmc"}
