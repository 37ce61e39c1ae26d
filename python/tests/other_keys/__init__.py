"""The keys under which other clients store, determined with these clients and a real server. The core's rules are
compared.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from other_rings.scripts import need, run
from servers import Memcached
from waiting import wait_until

import pinyon

HERE = Path(__file__).parent

#: Unusual keys, except those that only Dalli's binary protocol can send: over 250 bytes with spaces.
KEYS = [
    b"plain",
    b"a b",
    b"a\tb",
    b"a\rb",
    b"a\nb",
    b"nul\0x",
    b"\x01\x7f",
    b"sha256:0",
    "ключ".encode(),
    "ж".encode() * 100,
    "ж".encode() * 126,
    b"\xff\xfe",
    b"",
    b"k" * 246,
    b"k" * 247,
    b"k" * 250,
    b"k" * 251,
    b"k" * 300,
    b"k" * 240 + "ключ".encode() * 3,
    b"sp ace" * 30,
]
NAMESPACES = [b"", b"app:"]


def _dalli(server: Memcached, namespace: bytes, keys: Sequence[bytes]) -> None:
    need("ruby", "-e", "require 'dalli'", package="ruby-dalli")
    job = {"server": server.address, "namespace": namespace.decode().removesuffix(":") or None}
    run("ruby", HERE / "dalli.rb", job, keys)


def _perl(server: Memcached, namespace: bytes, keys: Sequence[bytes], *, client: str) -> None:
    need("perl", f"-M{client}", "-e", "1", package=f"lib{client.replace('::', '-').lower()}-perl")
    job = {"server": server.address, "namespace": namespace.decode(), "class": client}
    run("perl", HERE / "perl.pl", job, keys)


def _pinyon(server: Memcached, namespace: bytes, keys: Sequence[bytes], **rule: Any) -> None:
    with pinyon.Client(server.address, namespace=namespace or None, **rule) as client:
        for number, key in enumerate(keys):
            try:
                client.set(key, str(number).encode())
            except pinyon.InvalidKey:
                continue


#: For each rule, a function that stores each key's number under the key, if its client can.
RULES: dict[str, Callable[[Memcached, bytes, Sequence[bytes]], None]] = {
    "refused": lambda *job: _pinyon(*job, encode_keys=False),
    "encoded": lambda *job: _pinyon(*job, encode_keys=True),
    "dalli": _dalli,
    "cache-memcached": lambda *job: _perl(*job, client="Cache::Memcached"),
    "cache-memcached-fast": lambda *job: _perl(*job, client="Cache::Memcached::Fast"),
}


def vectors(rule: str, *, by_pinyon: bool = False) -> list[dict[str, Any]]:
    """Return the key under which the rule's client, or Pinyon, stores each of ``KEYS``; None if it cannot."""
    found = []
    for namespace in NAMESPACES:
        with Memcached() as server:
            if by_pinyon:
                _pinyon(server, namespace, KEYS, key_rule=rule)
            else:
                RULES[rule](server, namespace, KEYS)
            stored = _stored(server)
        names = {"rule": rule, "namespace_hex": namespace.hex()}
        for number, key in enumerate(KEYS):
            at = stored.get(number)
            found.append({**names, "key_hex": key.hex(), "stored_hex": None if at is None else at.hex()})
    return found


def server_version() -> str:
    """Return the version of the memcached that the vectors are determined with."""
    with Memcached() as server:
        return server.ask(b"version\r\n", b"\r\n").split()[1].decode()


def _stored(server: Memcached) -> dict[int, bytes]:
    """The keys of all items, by value."""
    lines: list[bytes] = []

    def are_listed() -> bool:
        """Whether the server lists its items: while it looks for expired ones itself, it says that it is busy."""
        ends = (b"END\r\n", b"BUSY currently processing crawler request\r\n")
        lines[:] = server.ask(b"lru_crawler metadump all\r\n", ends).splitlines()
        return lines.pop() == b"END"

    wait_until(are_listed)
    # A newer server says OK first.
    keys = [unquote_to_bytes(line.split()[0].removeprefix(b"key=")) for line in lines if line.startswith(b"key=")]
    return {_number(server, key): key for key in keys}


def _number(server: Memcached, key: bytes) -> int:
    """The value of a key. Sent as base64 if the key is short enough."""
    asked = b"%s v b" % base64.b64encode(key) if len(key) < 188 else b"%s v" % key
    return int(server.ask(b"mg %s\r\nmn\r\n" % asked, b"MN\r\n").split(b"\r\n")[1])
