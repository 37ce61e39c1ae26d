"""Values that cannot be read or stored: the errors, and the effect on other values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from models import Model, every_model
from servers import Memcached

import pinyon

Connect = Callable[..., Any]

#: Operations that read, with the command that the error must name.
READS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("get", lambda cache, key: cache.get(key)),
    ("get", lambda cache, key: cache.gets(key)),
    ("gat", lambda cache, key: cache.gat(key, 60)),
    ("meta", lambda cache, key: cache.get_with_ttl(key)),
    ("lease", lambda cache, key: cache.get_or_set(key, lambda: "made", 60)),
    ("get_many", lambda cache, key: cache.get_many(["other", key])),
    ("gets_many", lambda cache, key: cache.gets_many(["other", key])),
]


@pytest.mark.parametrize(
    ("settings", "key"), [({}, "key"), ({}, b"key"), ({"namespace": "app:"}, "größer"), ({"encode_keys": True}, "a b")]
)
@pytest.mark.parametrize(("command", "read"), READS)
@every_model
async def test_the_error_names_the_server_the_command_and_the_key(
    model: Model,
    server: Memcached,
    connect: Connect,
    command: str,
    read: Callable[[Any, Any], Any],
    settings: dict[str, Any],
    key: str | bytes,
) -> None:
    await connect(server, serializer="pickle", **settings).set(key, {"a set"})
    with pytest.raises(pinyon.UnknownFlags, match=r'only Python reads, with the serializer "pickle"') as raised:
        await read(connect(server, **settings), key)
    assert str(raised.value).startswith(f"{server.address}: {command}: {key!r}: the serializer")
    assert (raised.value.server, raised.value.command, raised.value.sent) == (server.address, command, "yes")


@pytest.mark.parametrize("count", [5, 40])
@every_model
async def test_the_other_values_are_beside_the_error(
    model: Model, server: Memcached, connect: Connect, count: int
) -> None:
    cache = connect(server)
    values = {f"key{number}": number for number in range(count)}
    await cache.set_many(values)
    await connect(server, serializer="pickle").set("key2", {"a set"})
    del values["key2"]
    with pytest.raises(pinyon.UnknownFlags, match="'key2'") as raised:
        await cache.get_many([f"key{number}" for number in range(count)])
    assert raised.value.partial == values


@every_model
async def test_of_many_values_the_one_that_cannot_be_stored_is_named(
    model: Model, server: Memcached, connect: Connect
) -> None:
    for settings, value in [({}, {1}), ({"dialect": "dalli"}, {1}), ({"serializer": "pickle"}, lambda: 1)]:
        cache = connect(server, **settings)
        with pytest.raises(pinyon.UnsupportedType, match="the value of 'two' cannot be stored: the "):
            await cache.set_many({"one": 1, "two": value, "three": 3})
        assert await cache.get_many(["one", "two", "three"]) == {}
