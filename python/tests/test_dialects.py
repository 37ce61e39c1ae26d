"""Values exchanged with other clients, in both directions, on a real server.

The results are tables in docs/compatibility-values.md, and vectors for other languages in vectors/values.json.
``PINYON_WRITE_TABLES=1 pytest -n 0 tests/test_dialects.py`` writes both.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from meta_memcache.compression.zstd_manager import ThreadLocalZstdManager
from meta_memcache.protocol import Key
from meta_memcache.serializer import ZstdSerializer
from models import Model, every_model
from peers import ALGORITHMS, LONG, PEERS, PICKLING, THRESHOLD, VALUES, Exchanged, meta_memcache_client, shown
from servers import Memcached
from test_compression import Verbatim, dictionary

import pinyon

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "compatibility-values.md"
VECTORS = REPOSITORY / "vectors" / "values.json"
WRITES = "PINYON_WRITE_TABLES" in os.environ

COMPRESSION = pinyon.Compression(threshold=THRESHOLD)

#: Values of others that are not in VALUES, or that Pinyon reads as something else.
READ: dict[str, dict[str, Any]] = {
    "pylibmc": {"true": 1, "false": 0, "subclass": "a str of its own class"},
    "python-memcached": {},
    "pymemcache": {},
    "meta-memcache": {"subclass": "a str of its own class", "zstd": LONG},
    "libmc": {"set": pinyon.UndecodableValue},
    "dalli": {
        "list": [1, "zwei", None, [True, 2.5]],
        "symbols": {"name": "ada", "again": ["ada", "name"]},
        "latin1": "größer",
        "object": pinyon.UndecodableValue,
        "shared": [["a", "a"], ["b"], ["a", "a"], ["b"]],
        "gzip": LONG,
        "raw": b"plain",
    },
    "cache-memcached": {
        "text": "größer 🌲".encode(),
        "empty-text": b"",
        "integer": b"42",
        "negative": b"-7",
        "large-integer": b"1099511627776",
        "float": b"1.5",
        "infinite": b"Inf",
        "list": [1, "two", None, ["2.5"]],
        "dict": {"name": "Ada", "age": 36},
        "text-keys": {"größe": "🌲"},
        "long-text": LONG.encode(),
        "object": pinyon.UndecodableValue,
        "shared": [["a"], ["a"]],
    },
    "php-memcached": {
        "text": "größer 🌲".encode(),
        "empty-text": b"",
        "list": [1, "zwei", None, [True, 2.5]],
        "long-text": LONG.encode(),
        "object": pinyon.UndecodableValue,
        "shared": [["a"], ["a"]],
        "fastlz": pinyon.UndecodableValue,
        "igbinary": pinyon.UnknownFlags,
        "json": {"name": "Ada", "größe": 36},
        "msgpack": {"name": "Ada", "größe": 36},
    },
}
READ["cache-memcached-fast"] = {**READ["cache-memcached"], "text": "größer 🌲"}

#: Values that Pinyon refuses to store, because the other client's language cannot express them.
REFUSED = {
    "dalli": {"tuple", "set", "subclass"},
    "cache-memcached": {"true", "false", "none", "tuple", "set", "subclass"},
    "cache-memcached-fast": {"true", "false", "none", "tuple", "set", "subclass"},
    "php-memcached": {"huge-integer", "tuple", "set", "subclass"},
}


def client(server: Memcached, dialect: Any, **settings: Any) -> pinyon.Client:
    serializer = "pickle" if dialect in PICKLING else "portable"
    return pinyon.Client(
        server.address,
        timeout=10,
        connect_timeout=10,
        **{"dialect": dialect, "serializer": serializer, "compression": COMPRESSION, **settings},
    )


def same(one: Any, other: Any) -> bool:
    """Whether they are equal, including all inner types; the order of dicts does not matter."""
    return one == other and kinds(one) == kinds(other)


def kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: (type(key), kinds(item)) for key, item in value.items()}
    return (type(value), [kinds(item) for item in value]) if isinstance(value, (list, tuple)) else type(value)


@pytest.mark.parametrize("dialect", PEERS)
def test_values_are_exchanged_both_ways(server: Memcached, dialect: str) -> None:
    refused = {}
    with client(server, dialect) as ours:
        for name, value in VALUES.items():
            try:
                assert ours.set(f"ours:{name}", value)
            except pinyon.UnsupportedType as error:
                refused[name] = str(error)
        assert set(refused) == REFUSED.get(dialect, set())
        names = [name for name in VALUES if name not in refused]
        for algorithm in ALGORITHMS.get(dialect, []):
            names.append(f"long-{algorithm}")
            with client(server, dialect, compression=pinyon.Compression(algorithm)) as other:
                other.set(f"ours:{names[-1]}", LONG)
        exchanged = PEERS[dialect](server, names)
        read = {name: fetched(ours, f"theirs:{name}") for name in exchanged.wrote}
    for name, value in read.items():
        expected = READ[dialect].get(name, VALUES.get(name))
        assert type(value) is expected if isinstance(expected, type) else same(value, expected), (name, value)
    if dialect in PICKLING:
        # These clients change their own values in the same way.
        odd = {"pylibmc": {"true": "1", "false": "0"}, "meta-memcache": {"empty-text": "b''"}}
        changed = odd.get(dialect, {})
        for name in names:
            assert exchanged.read[name] == changed.get(name, shown(VALUES.get(name, LONG))), name
    record(server, dialect, exchanged, read, names)


def fetched(ours: pinyon.Client, key: str) -> Any:
    try:
        return ours.get(key)
    except pinyon.UndecodableValue as error:
        return error


def record(server: Memcached, dialect: str, exchanged: Exchanged, read: dict[str, Any], names: list[str]) -> None:
    """Compares the exchange with the record, if that has the same version."""
    section, vectors = written(server, dialect, exchanged, read, names)
    page = PAGE.read_text()
    known = re.search(rf"<!-- {dialect} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert known, f"{PAGE.name} has no place for {dialect}"
    recorded = json.loads(VECTORS.read_text()) if VECTORS.exists() else {}
    if WRITES:
        PAGE.write_text(page[: known.start(1)] + section + page[known.end(1) :])
        recorded[dialect] = vectors
        VECTORS.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
        return
    if f"Compared with {exchanged.version}." not in known.group(1):
        pytest.skip(f"{PAGE.name} was not made with {exchanged.version}")
    assert known.group(1) == section, f"{PAGE.name} is out of date; write it anew with PINYON_WRITE_TABLES=1"


def written(
    server: Memcached, dialect: str, exchanged: Exchanged, read: dict[str, Any], names: list[str]
) -> tuple[str, dict[str, Any]]:
    """The table of an exchange, and its vectors."""
    rows = [
        f"Compared with {exchanged.version}.\n",
        "| Python's value | Pinyon stores | the other client reads | the other client stores | Pinyon reads |",
        "|---|---|---|---|---|",
    ]
    vectors = []
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Verbatim()) as raw:
        for name in dict.fromkeys([*VALUES, *names, *exchanged.wrote]):
            ours, theirs = raw.get(f"ours:{name}"), raw.get(f"theirs:{name}")
            rows.append(
                "| "
                + " | ".join(
                    cell(text)
                    for text in (
                        f"{name}: {shown(VALUES[name])}" if name in VALUES else name,
                        bytes_shown(ours) if ours else "refused" if name in VALUES else "",
                        exchanged.read.get(name, ""),
                        bytes_shown(theirs) if theirs and name in exchanged.wrote else "",
                        reading(read[name]) if name in read else "",
                    )
                )
                + " |"
            )
            for writer, stored, value in (("pinyon", ours, VALUES.get(name)), ("other", theirs, read.get(name))):
                if stored is None or isinstance(value, Exception) or is_pickled(dialect, stored[0]):
                    continue
                if writer == "pinyon":
                    with client(server, dialect) as ours_again:
                        value = ours_again.get(f"ours:{name}")
                vectors.append(
                    {
                        "name": name,
                        "writer": writer,
                        "flags": stored[0],
                        "data_hex": stored[1].hex(),
                        "value": typed(value),
                    }
                )
    return "\n".join(rows) + "\n", {"client": exchanged.version, "values": vectors}


def is_pickled(dialect: str, flags: int) -> bool:
    return dialect in PICKLING and flags & 1 == 1


def cell(text: str) -> str:
    code = text.replace("`", "\\x60").replace("|", "\\|")
    return f"`{code}`" if text and text != "refused" else text


def bytes_shown(stored: tuple[int, bytes]) -> str:
    flags, data = stored
    if data[:2] in (b"\x80\x04", b"\x80\x05") or (data[:1] == b"(" and data[-1:] == b"."):
        return f"{flags}: pickled"
    return f"{flags}: {data!r}" if len(data) <= 48 else f"{flags}: {data[:2]!r}…"


def reading(value: Any) -> str:
    return type(value).__name__ if isinstance(value, Exception) else shown(value)


def typed(value: Any) -> list[Any]:
    """A value with its type, for readers in other languages."""
    if isinstance(value, bool) or value is None:
        return ["bool", value] if value is not None else ["null"]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [typed(item) for item in value]]
    if isinstance(value, dict):
        return ["map", [[typed(key), typed(item)] for key, item in value.items()]]
    if value in (LONG, LONG.encode()):
        return ["text" if value == LONG else "bytes", {"repeated": LONG[:24], "times": 1000}]
    if isinstance(value, bytes):
        return ["bytes_hex", value.hex()]
    return [{str: "text", int: "integer", float: "float"}[type(value)], str(value)]


def test_the_vectors_for_other_languages_are_read_as_they_say(server: Memcached) -> None:
    recorded = json.loads(VECTORS.read_text())
    assert set(recorded) >= set(PEERS)
    for dialect, vectors in recorded.items():
        with (
            client(server, dialect.partition(" ")[0]) as ours,
            pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Verbatim()) as raw,
        ):
            for vector in vectors["values"]:
                raw.set("key", (vector["flags"], bytes.fromhex(vector["data_hex"])))
                value = ours.get("key")
                assert typed(value) == vector["value"], (dialect, vector["name"])
                if vector["writer"] == "pinyon" and len(vector["data_hex"]) < 200 and vector["name"] in VALUES:
                    ours.set("key", VALUES[vector["name"]])
                    flags, data = raw.get("key")
                    assert (flags, data.hex()) == (vector["flags"], vector["data_hex"]), (dialect, vector["name"])


@every_model
def test_a_dialect_is_spoken_by_every_command(model: Model, server: Memcached) -> None:
    values = {"text": "größer", "long": LONG, "dict": {"name": [1.5, None]}, "number": 5}

    async def scenario() -> None:
        async with model.client(
            server.address, timeout=10, connect_timeout=10, dialect="dalli", compression=COMPRESSION
        ) as cache:
            assert await cache.set_many(values) == []
            assert await cache.get_many(values) == values
            for key, value in values.items():
                assert await cache.get(key) == value
                read, cas = await cache.gets(key)
                assert read == value
                assert await cache.cas(key, value, cas) is True
                assert await cache.gat(key, 60) == value
            async with cache.quiet() as batch:
                await batch.set("quiet", values)
            assert await cache.get("quiet") == values

    model.run(scenario())


@pytest.mark.parametrize("dialect", sorted(PICKLING))
def test_nothing_is_pickled_or_unpickled_without_leave(server: Memcached, dialect: str) -> None:
    with client(server, dialect) as trusting, client(server, dialect, serializer="portable", compression=None) as ours:
        trusting.set("key", {1, 2})
        assert trusting.get("key") == {1, 2}
        for read in (lambda: ours.get("key"), lambda: ours.get_many(["key"]), lambda: ours.gets("key")):
            with pytest.raises(pinyon.UnknownFlags, match=r'the serializer "pickle".*runs code') as raised:
                read()
            assert raised.value.server == server.address
        with pytest.raises(pinyon.UnsupportedType, match=r'set.*the serializer "pickle"'):
            ours.set("key", {1})


@pytest.mark.parametrize("dialect", PEERS)
def test_flags_that_the_other_client_does_not_write_are_an_error_that_names_the_server(
    server: Memcached, dialect: str
) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Verbatim()) as raw:
        raw.set("key", (1 << 11, b"5"))
    with client(server, dialect) as ours:
        with pytest.raises(pinyon.UnknownFlags, match=f'flags 2048 in the dialect "{dialect}"') as raised:
            ours.get("key")
        assert raised.value.server == server.address
        assert str(raised.value).startswith(server.address)


@pytest.mark.parametrize(
    ("dialect", "flags", "data", "why"),
    [
        ("dalli", 1, b"\x04\x08o:\x0bPerson\x00", "Ruby's Marshal.*class Person"),
        ("dalli", 1, b"\x04\x08[", "end is missing"),
        ("dalli", 1, b"{}", "format 4.8"),
        ("dalli", 1, b'\x04\x08{\x07:\x06ai\x06I"\x06a\x06:\x06ETi\x07', "two keys"),
        ("dalli", 1, b"\x04\x08{\x06[\x00i\x06", "a key in the stored value"),
        ("dalli", 1, b'\x04\x08I"\x06\xff\x06:\rencoding"\x0cNowhere', "the encoding Nowhere"),
        ("dalli", 2, b"text", "does not begin as zstd"),
        ("php-memcached", 4, b'O:8:"stdClass":0:{}', "PHP's serialize.*class stdClass"),
        ("php-memcached", 5, b"\x00", "igbinary"),
        ("php-memcached", 48, b"\x00", "end is missing"),
        ("php-memcached", 6, b"[" * 100_000, "JSON"),
        ("cache-memcached", 1, b"\x04\x0b\x08\x31", "missing|nfreeze"),
        ("libmc", 4096, b"~3", "do_split=False"),
        ("libmc", 32, b"c\x00", "Python code"),
        ("pylibmc", 8, b"\x78\x9c", "end is missing"),
        ("meta-memcache", 32, b"\x20", "missing|corrupt"),
    ],
)
def test_what_cannot_be_read_says_why(server: Memcached, dialect: str, flags: int, data: bytes, why: str) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Verbatim()) as raw:
        raw.set("key", (flags, data))
    with client(server, dialect) as ours:
        with pytest.raises(pinyon.UndecodableValue, match=why) as raised:
            ours.get("key")
        assert raised.value.server == server.address
        assert ours.set("key", 5)
        assert ours.get("key") in (5, b"5")


def test_a_value_of_dalli_5_in_text_or_raw_is_read(server: Memcached) -> None:
    """Values of a version that Debian does not have: Dalli 4 stores text so from 5.0.4 on, with string_fastpath."""
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Verbatim()) as raw:
        raw.set_many({"text": (4, "größer".encode()), "raw": (0, b"\xff")})
    with client(server, "dalli") as ours:
        assert ours.get_many(["text", "raw"]) == {"text": "größer", "raw": b"\xff"}


def test_what_is_appended_are_bytes_as_others_append_them(server: Memcached) -> None:
    with client(server, "dalli", compression=None) as ours:
        with pinyon.Client(server.address, timeout=10, connect_timeout=10) as plain:
            plain.set("key", b"b")
        assert ours.append("key", "ö")
        assert ours.prepend("key", b"a")
        assert ours.get("key") == "abö".encode()
        with pytest.raises(pinyon.UnsupportedType, match="take str or bytes"):
            ours.append("key", [1])


@pytest.mark.parametrize("dialect", ["dalli", "libmc", "php-memcached", "cache-memcached"])
def test_what_contains_itself_is_refused(server: Memcached, dialect: str) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with client(server, dialect, serializer="portable") as ours, pytest.raises(pinyon.UnsupportedType, match="itself"):
        ours.set("key", endless)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"dialect": "memcached"}, 'no dialect "memcached"; there are "pinyon", "pylibmc", .*"php-memcached"'),
        ({"dialect": "pylibmc", "compression": "zstd"}, 'the dialect "pylibmc" knows zlib alone, not zstd'),
        ({"dialect": "dalli", "serializer": "pickle"}, "do not read pickled values"),
        ({"dialect": "dalli", "serializer": "json"}, 'serializer is "pickle" or left out'),
        ({"dialect": "pylibmc", "serializer": "raw"}, 'serializer is "pickle" or left out'),
        ({"dialect": "pylibmc", "serializer": Verbatim()}, 'serializer is "pickle" or left out'),
    ],
)
def test_settings_that_make_no_sense_say_what_does(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(pinyon.UsageError, match=why):
        pinyon.Client("127.0.0.1:1", **settings)


def test_every_dialect_has_its_table() -> None:
    page = PAGE.read_text()
    assert re.findall(r"<!-- ([\w-]+) -->\nCompared with", page) == list(PEERS)


def test_dictionaries_are_shared_with_meta_memcache(server: Memcached) -> None:
    value, trained = '{"name": "user 77", "role": "reader 7"}', dictionary(7)
    manager = ThreadLocalZstdManager()
    manager.set_default_dictionary(trained)
    other = meta_memcache_client(
        server, ZstdSerializer(manager, compression_threshold=10, dict_compression_threshold=10)
    )
    compression = pinyon.Compression("zstd", threshold=10, dictionaries={7: trained})
    with client(server, "meta-memcache", compression=compression) as ours:
        ours.set("ours", value)
        assert other.get(Key("ours")) == value
        other.set(Key("theirs"), value, ttl=600)
        assert ours.get("theirs") == value
    with (
        client(server, "meta-memcache") as without,
        pytest.raises(pinyon.UndecodableValue, match="dictionary 7"),
    ):
        without.get("theirs")
