"""Values that cannot be read or stored: the errors, and the effect on other values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from making import Maker
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


class Choosy:
    """A custom serializer that reads nothing but what begins as its own values do."""

    def dump(self, value: str) -> tuple[bytes, int]:
        return b"mine:" + value.encode(), 0

    def load(self, data: bytes, flags: int) -> str:
        mark, mine = data[:5], data[5:]
        if mark != b"mine:":
            raise LookupError(f"no value of ours begins with {mark!r}")
        return mine.decode()


#: How a value is written, and the serializer that cannot read it.
UNREADABLE: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "another serializer's": ({"serializer": "pickle"}, {"a set"}, "portable"),
    "a broken pickle": ({"serializer": "raw"}, b"mine", "pickle"),
    "what a custom serializer refuses": ({"serializer": "raw"}, b"not mine", Choosy()),
    "a broken text": ({"serializer": "raw"}, b"\xff", "text"),
}


class Marked:
    """Writes bytes with any flags."""

    def __init__(self, flags: int) -> None:
        self.flags = flags

    def dump(self, value: bytes) -> tuple[bytes, int]:
        return value, self.flags

    def load(self, data: bytes, flags: int) -> bytes:
        return data


async def _stored(connect: Connect, server: Memcached, kind: str, *keys: str) -> Any:
    """Stores values that the serializer cannot read. Returns the serializer."""
    settings, value, serializer = UNREADABLE[kind]
    flags = {"a broken pickle": 1, "a broken text": 16}.get(kind)
    writer = connect(server, **({"serializer": Marked(flags)} if flags else settings))
    await writer.set_many(dict.fromkeys(keys, value))
    return "portable" if serializer == "text" else serializer


@pytest.mark.parametrize("kind", UNREADABLE)
@every_model
async def test_get_or_set_makes_a_value_that_cannot_be_read_anew(
    model: Model, server: Memcached, connect: Connect, kind: str
) -> None:
    serializer = await _stored(connect, server, kind, "key")
    cache, made = connect(server, serializer=serializer), []
    for _ in range(2):
        assert await cache.get_or_set("key", lambda: made.append(1) or "new", 60) == "new"
    assert made == [1]
    assert await connect(server, serializer=serializer).get("key") == "new"
    value, left = await cache.get_with_ttl("key")
    assert value == "new"
    assert 0 < left <= 60


@every_model
async def test_one_caller_of_all_processes_makes_it(model: Model, server: Memcached, connect: Connect) -> None:
    serializer = await _stored(connect, server, "a broken pickle", "key")
    one, other = (connect(server, serializer=serializer) for _ in range(2))
    maker, never = Maker(model, "new", held=True), Maker(model, "made twice")
    first = model.spawn(one.get_or_set("key", maker.make, 60))
    await maker.begun()
    second = model.spawn(other.get_or_set("key", never.make, 60))
    await model.sleep(0.1)
    maker.held = False
    assert [await model.join(first), await model.join(second)] == ["new", "new"]
    assert never.calls == 0


@every_model
async def test_a_value_that_cannot_be_read_stays_if_no_new_one_is_made(
    model: Model, server: Memcached, connect: Connect
) -> None:
    serializer = await _stored(connect, server, "a broken pickle", "key")
    cache = connect(server, serializer=serializer)

    def fail() -> None:
        raise LookupError("no new one")

    for _ in range(2):
        with pytest.raises(LookupError, match="no new one"):
            await cache.get_or_set("key", fail, 60)
    assert await connect(server, serializer="raw").get("key") == b"mine"


@every_model
async def test_a_lease_by_hand_is_won_by_one_caller(model: Model, server: Memcached, connect: Connect) -> None:
    serializer = await _stored(connect, server, "a broken pickle", "key")
    one, other = (connect(server, serializer=serializer) for _ in range(2))
    won = await one.lease("key")
    assert (won.state, won.has_value) == (pinyon.Outcome.WON, False)
    assert (await other.lease("key")).state is pinyon.Outcome.FILLING
    fulfilled = won.fulfil("new", 60)
    assert await fulfilled if inspect.isawaitable(fulfilled) else fulfilled
    assert (await other.lease("key")).value == "new"


@pytest.mark.parametrize("kind", UNREADABLE)
@every_model
async def test_it_can_count_as_missing(model: Model, server: Memcached, connect: Connect, kind: str) -> None:
    serializer = await _stored(connect, server, kind, "key")
    events: list[Any] = []
    cache = connect(server, serializer=serializer, on_event=events.append).using(on_unreadable="miss")
    await cache.set("other", "readable")
    for _ in range(2):
        assert await cache.get("key") is None
        assert await cache.get("key", "default") == "default"
        assert await cache.gets("key") is None
        assert await cache.get_with_ttl("key") is None
        assert await cache.gat("key", 60) is None
        assert await cache.get_many(["key", "other", "none"]) == {"other": "readable"}
        assert list(await cache.gets_many(["key", "other"])) == ["other"]
    await model.until(lambda: events)
    assert [(event.kind, event.level) for event in events] == [("unreadable", "warning")], "each reason is told once"
    assert events[0].line.startswith("a stored value cannot be read, so it counts as missing: " + server.address)
    assert isinstance(events[0].error, pinyon.UndecodableValue)
    with pytest.raises((pinyon.UndecodableValue, LookupError)):
        await cache.using(on_unreadable="raise").get("key")


@pytest.mark.parametrize("on_unreadable", ["raise", "miss"])
@every_model
async def test_failed_names_each_key(model: Model, server: Memcached, connect: Connect, on_unreadable: str) -> None:
    for kind in UNREADABLE:
        serializer = await _stored(connect, server, kind, "one", "two")
        cache = connect(server, serializer=serializer, on_unreadable=on_unreadable)
        await cache.set("other", "readable")
        failed: dict[str, Exception] = {}
        assert await cache.get_many(["one", "other", "two"], failed=failed) == {"other": "readable"}
        assert failed.keys() == {"one", "two"}
        assert all(isinstance(error, (pinyon.UndecodableValue, LookupError)) for error in failed.values())


@every_model
async def test_of_many_values_the_one_that_cannot_be_stored_is_named(
    model: Model, server: Memcached, connect: Connect
) -> None:
    for settings, value in [({}, {1}), ({"dialect": "dalli"}, {1}), ({"serializer": "pickle"}, lambda: 1)]:
        cache = connect(server, **settings)
        with pytest.raises(pinyon.UnsupportedType, match="the value of 'two' cannot be stored: the "):
            await cache.set_many({"one": 1, "two": value, "three": 3})
        assert await cache.get_many(["one", "two", "three"]) == {}
