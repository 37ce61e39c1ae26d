"""Servers for distributing keys, and the keys."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Server(NamedTuple):
    """One server. Without a port, its host is a path."""

    host: str
    port: int | None = 11211
    weight: float = 1

    @property
    def place(self) -> str:
        """``host:port`` or the path."""
        if self.port is None:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def text(self) -> str:
        """In Pinyon's notation."""
        return self.place if self.weight == 1 else f"{self.place}:{self.weight}"


@dataclass(frozen=True)
class Fleet:
    name: str
    servers: Sequence[Server]
    namespace: str = ""

    @property
    def places(self) -> list[str]:
        return [server.place for server in self.servers]

    @property
    def texts(self) -> list[str]:
        return [server.text for server in self.servers]


def weighted(servers: Sequence[Server], weights: Sequence[float]) -> list[Server]:
    return [server._replace(weight=weights[index % len(weights)]) for index, server in enumerate(servers)]


ONE = Fleet("1 server", [Server("10.0.0.1")])
TWO = Fleet("2 servers", [Server("127.0.0.1", 43042), Server("127.0.0.1", 43043)])
THREE = Fleet("3 servers", [Server("cache1.example.com"), Server("10.0.0.2"), Server("localhost", 11212)])
MANY = Fleet("25 servers", [Server(f"10.0.0.{number}", 11211 + number % 3) for number in range(1, 26)])
IPV6 = Fleet("IPv6", [Server("::1"), Server("fe80::2", 11212), Server("127.0.0.1")])
UNIX = Fleet("Unix sockets", [Server("/run/one.sock", None), Server("/run/two.sock", None), Server("10.0.0.1")])
NAMESPACE = Fleet("namespace", THREE.servers, namespace="app:")
WEIGHTS = Fleet("weights", weighted([*THREE.servers, Server("10.0.0.4", 22122)], [1, 2, 5]))
FRACTIONS = Fleet("fractions", weighted([*THREE.servers, Server("10.0.0.4", 22122)], [1.5, 0.25, 1, 2.125]))
MANY_FRACTIONS = Fleet("25 fractions", weighted(MANY.servers, [1.5, 0.1, 3, 0.7, 2.333333]))
MANY_WEIGHTS = Fleet("25 weights", weighted(MANY.servers, [1, 2, 3, 7]))
#: No server listens there.
REFUSING = Fleet("refusing", [Server(f"127.0.0.{number}", 1) for number in range(1, 6)])
REFUSING_WEIGHTS = Fleet("refusing weights", weighted(REFUSING.servers, [1, 2, 3]))

#: The cases for every ring, as far as its client supports them.
PLAIN = [ONE, TWO, THREE, MANY, NAMESPACE]


def _texts(count: int) -> list[str]:
    chance = random.Random(2026)
    plain = [chr(code) for code in range(0x21, 0x7F)]
    wide = [*plain[::5], *"äöüßéñøłżçабвгджклюяαβγδωあいう漢字🌲🦔"]
    alphabet = [plain, plain, plain, wide]
    lengths = range(1, 60)
    keys = {"".join(chance.choices(chance.choice(alphabet), k=chance.choice(lengths))) for _ in range(count + 500)}
    return sorted(keys)[:count]


def _bytes(count: int) -> list[bytes]:
    chance = random.Random(2027)
    high = range(0x80, 0x100)
    return [bytes(chance.choices(high, k=chance.randrange(1, 60))) for _ in range(count)]


#: Text. A quarter of it is not ASCII.
TEXTS = _texts(10_000)
#: Bytes. Most are text, some are not.
BYTES = [*(key.encode() for key in TEXTS[:9_000]), *_bytes(1_000)]
