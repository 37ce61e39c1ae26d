"""Compares every named ring with the client it is from."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pinyon
from other_rings import libmemcached, python_clients, scripts
from other_rings.fleets import (
    BYTES,
    FRACTIONS,
    IPV6,
    MANY,
    MANY_FRACTIONS,
    MANY_WEIGHTS,
    ONE,
    PLAIN,
    REFUSING,
    TEXTS,
    THREE,
    TWO,
    UNIX,
    WEIGHTS,
    Fleet,
    Server,
)
from other_rings.listening import Listening

#: The servers of keys according to a client, if some servers are dead: indexes, or None for no server.
Ask = Callable[..., "list[int | None]"]


class Case(NamedTuple):
    fleet: Fleet
    keys: Sequence[str] | Sequence[bytes]
    dead: Collection[int] = ()


@dataclass
class Ring:
    """A ring, and its row in the documentation.

    Args:
        like: the client with this ring, and the settings.
        weights: how weights are used.
        namespace: whether it is hashed.
        failure: where the keys of a server that is down go.
        ask: asks that client.
        keys: the keys it accepts.
        fleets: what it is compared on while all servers are up.
        failing: what it is compared on while some are down.
        here: further ``fleets``, whose servers must be running.
        failing_here: further ``failing`` ones; the servers that are up must be running.
        bytes_too: whether keys of bytes are a separate case.
    """

    name: str
    like: str
    weights: str
    namespace: str
    failure: str
    ask: Ask
    keys: Sequence[str] | Sequence[bytes]
    fleets: Sequence[Fleet] = ()
    failing: Sequence[Fleet] = ()
    here: Sequence[Fleet] = ()
    failing_here: Sequence[Fleet] = ()
    bytes_too: bool = False

    def cases(self, directory: Path) -> Iterator[Case]:
        for fleet in [*self.fleets, *_local(directory, self.here)]:
            yield Case(fleet, self.keys)
        if self.bytes_too:
            yield Case(THREE, BYTES)
        for fleet in [*self.failing, *_local(directory, self.failing_here)]:
            for dead in ({1}, {0, 3}):
                yield Case(fleet, self.keys, dead)

    def row(self, compared: int, wrong: int) -> str:
        """Its row in the documentation."""
        cells = [f"`{self.name}`", self.like, self.weights, self.namespace, self.failure, f"{compared:,}", f"{wrong:,}"]
        return f"| {' | '.join(cells)} |"


def compare(ring: Ring, case: Case) -> list[str]:
    """The keys that Pinyon puts elsewhere, and where."""
    real = ring.ask(case.fleet, case.keys, case.dead)
    ours = places(ring.name, case)
    assert len(real) == len(ours) == len(case.keys)
    triples = zip(case.keys, ours, real)
    return [f"{key!r}: {our}, not {place}" for key, our, place in triples if our != place]


def places(ring: str, case: Case) -> list[int | None]:
    """Where Pinyon puts the keys."""
    fleet, keys, dead = case
    by_name = {place: index for index, place in enumerate(fleet.places)}
    with pinyon.Client(fleet.texts, ring=ring, namespace=fleet.namespace or None, failover=bool(dead)) as client:
        candidates = ([by_name[name] for name in client.servers_of(key)] for key in keys)
        return [next((server for server in servers if server not in dead), None) for servers in candidates]


def _local(directory: Path, fleets: Sequence[Fleet]) -> list[Fleet]:
    """The same fleets on local addresses that only this process uses."""
    process = os.getpid()

    def local(index: int, server: Server) -> Server:
        if server.port is None:
            return server._replace(host=str(directory / Path(server.host).name))
        return server._replace(host=f"127.{77 + process // 250 % 100}.{process % 250 + 1}.{index + 1}")

    return [
        Fleet(fleet.name, [local(index, server) for index, server in enumerate(fleet.servers)], fleet.namespace)
        for fleet in fleets
    ]


def _modula(fleet: Fleet, keys: Sequence[bytes], dead: Collection[int] = ()) -> list[int | None]:
    found = libmemcached.places(libmemcached.MODULA, fleet, keys)
    return [None if place in dead else place for place in found]


def _libmemcached(behaviors: dict[int, int]) -> Ask:
    return functools.partial(libmemcached.places, behaviors)


def _libmc(fleet: Fleet, keys: Sequence[str], dead: Collection[int] = ()) -> list[int | None]:
    there: AbstractContextManager[object] = Listening(fleet, dead) if dead else nullcontext()
    with there:
        return python_clients.libmc_client(fleet, keys, dead)


#: libmc puts its prefix after a question mark at the beginning of a key, which changes the key.
WITHOUT_QUESTION_MARKS = [key for key in TEXTS if not key.startswith("?")]

EVERYTHING = [*PLAIN, IPV6, UNIX, WEIGHTS, MANY_WEIGHTS]
NEXT = "to the next server on the circle"
EJECTED = "to their servers on a ring without it, as with `auto_eject_hosts`"
STAY = "nowhere: operations fail"
COUNTED, RATIONAL, IGNORED, REFUSED = "yes", "any above 0", "ignored", "refused"
HASHED, NOT_HASHED = "hashed", "not hashed"

RINGS = [
    Ring(
        "ketama",
        "libmemcached and pylibmc, `ketama_weighted`",
        COUNTED,
        NOT_HASHED,
        NEXT,
        _libmemcached(libmemcached.OF_WEIGHTED),
        BYTES,
        EVERYTHING,
        [REFUSING],
    ),
    Ring(
        "libmemcached-modula",
        "libmemcached and pylibmc without settings",
        IGNORED,
        NOT_HASHED,
        STAY,
        _modula,
        BYTES,
        EVERYTHING,
        [MANY],
    ),
    Ring(
        "libmemcached-ketama",
        "libmemcached and pylibmc, `ketama`",
        COUNTED,
        NOT_HASHED,
        EJECTED,
        _libmemcached(libmemcached.OF_KETAMA),
        BYTES,
        EVERYTHING,
        [REFUSING],
    ),
    Ring(
        "libmemcached-ketama-md5",
        "libmemcached and pylibmc, `ketama` and `hash=md5`",
        COUNTED,
        NOT_HASHED,
        EJECTED,
        _libmemcached(libmemcached.OF_KETAMA_MD5),
        BYTES,
        EVERYTHING,
        [REFUSING],
    ),
    Ring(
        "libmemcached-spy",
        "libmemcached, `ketama_weighted` and the distribution `consistent_ketama_spy`",
        COUNTED,
        NOT_HASHED,
        EJECTED,
        _libmemcached(libmemcached.OF_SPY),
        BYTES,
        EVERYTHING,
        [REFUSING],
    ),
    Ring(
        "libmc",
        "libmc",
        REFUSED,
        HASHED,
        NEXT + ", as with `failover=True`",
        _libmc,
        WITHOUT_QUESTION_MARKS,
        PLAIN,
        failing_here=[MANY],
    ),
    Ring(
        "pymemcache",
        "pymemcache's `HashClient`; a `bytes` key may be on another server than the same text",
        REFUSED,
        NOT_HASHED,
        "to the server with the next score",
        python_clients.pymemcache,
        TEXTS,
        [*PLAIN, IPV6, UNIX],
        [REFUSING],
        bytes_too=True,
    ),
    Ring(
        "python-memcached",
        "python-memcached since 1.60",
        COUNTED,
        NOT_HASHED,
        "to the server of a new hash: ten tries",
        python_clients.python_memcached,
        BYTES,
        [ONE, TWO, THREE, MANY, UNIX, WEIGHTS, MANY_WEIGHTS],
        [REFUSING, MANY_WEIGHTS],
    ),
    Ring(
        "meta-memcache",
        "meta-memcache, by uhashring",
        REFUSED,
        NOT_HASHED,
        STAY,
        python_clients.meta_memcache,
        TEXTS,
        [ONE, TWO, THREE, MANY, IPV6],
        [MANY],
    ),
    Ring(
        "emcache",
        "emcache",
        REFUSED,
        NOT_HASHED,
        "to the server with the next score, as with `purge_unhealthy_nodes`",
        python_clients.emcache,
        BYTES,
        [ONE, TWO, THREE, MANY, IPV6, UNIX],
        [REFUSING, MANY],
    ),
    Ring(
        "dalli",
        'Dalli and Rails\' `MemCacheStore`; pass their namespace with its colon, `namespace="app:"`',
        COUNTED,
        HASHED,
        "to the server of a new hash: twenty tries",
        scripts.dalli,
        BYTES,
        EVERYTHING,
        [REFUSING, MANY_WEIGHTS],
    ),
    Ring(
        "cache-memcached",
        "Cache::Memcached",
        COUNTED,
        NOT_HASHED,
        "to the server of a new hash: twenty tries",
        scripts.cache_memcached,
        BYTES,
        EVERYTHING,
        [REFUSING, MANY_WEIGHTS],
    ),
    Ring(
        "cache-memcached-fast",
        "Cache::Memcached::Fast without `ketama_points`",
        RATIONAL,
        NOT_HASHED,
        STAY,
        scripts.cache_memcached_fast,
        BYTES,
        here=[*PLAIN, UNIX, WEIGHTS, MANY_WEIGHTS, FRACTIONS, MANY_FRACTIONS],
        failing_here=[MANY],
    ),
    Ring(
        "cache-memcached-fast-ketama",
        "Cache::Memcached::Fast, `ketama_points => 150`",
        RATIONAL,
        NOT_HASHED,
        STAY,
        functools.partial(scripts.cache_memcached_fast, ketama_points=150),
        BYTES,
        here=[*PLAIN, UNIX, WEIGHTS, MANY_WEIGHTS, FRACTIONS, MANY_FRACTIONS],
        failing_here=[MANY],
    ),
    Ring(
        "cache-memcached-fast-ketama:7",
        "Cache::Memcached::Fast, `ketama_points => 7` (or any other number, up to 65,535)",
        RATIONAL,
        NOT_HASHED,
        STAY,
        functools.partial(scripts.cache_memcached_fast, ketama_points=7),
        BYTES,
        here=[TWO, THREE, MANY, UNIX, WEIGHTS, FRACTIONS, MANY_FRACTIONS],
        failing_here=[MANY],
    ),
]
