"""Pinyon's rings for libmemcached's hashes and distributions."""

from __future__ import annotations

from typing import Any

from pinyon.compat.pylibmc.errors import NotSupportedError
from pinyon.compat.pylibmc.servers import Spec, address

WEIGHTED, MODULA = "consistent weighted", "modula"

#: Pinyon's ring by distribution and hash.
RINGS = {
    (WEIGHTED, "md5"): "ketama",
    (MODULA, "default"): "libmemcached-modula",
    (MODULA, "crc"): "python-memcached",
    ("consistent", "default"): "libmemcached-ketama",
    ("consistent", "md5"): "libmemcached-ketama-md5",
    ("consistent ketama", "default"): "libmemcached-ketama",
    ("consistent ketama", "md5"): "libmemcached-ketama-md5",
}


def placement(specs: list[Spec], distribution: str, hash_name: str) -> dict[str, Any]:
    """Return the settings of ``pinyon.Client`` with which keys are on the same servers as with pylibmc.

    Raises:
        NotSupportedError: Pinyon has no such ring, and there are several servers.
    """
    if distribution == MODULA:
        specs = [(*spec[:3], 1) for spec in specs]
    servers = [address(spec) for spec in specs]
    if len(servers) == 1:
        return {"servers": servers}
    ring = RINGS.get((distribution, hash_name))
    if ring is None:
        there_are = "; ".join(f'distribution "{one}" with hash "{other}"' for one, other in RINGS)
        raise NotSupportedError(
            f'with the distribution "{distribution}" and the hash "{hash_name}" Pinyon would look for keys on other '
            f"servers than pylibmc. Supported are: {there_are}"
        )
    return {"servers": servers, "ring": ring}


def number_of_server(cache: Any, specs: list[Spec], name: bytes) -> int:
    """Return the index of the key's server."""
    if len(specs) == 1:
        return 0
    addresses = [address((*spec[:3], 1)) for spec in specs]
    return addresses.index(cache.servers_of(name)[0])
