"""Stores that a real server refuses: what is too large for it, and what it has no memory for."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from models import Model, every_model
from servers import Memcached

import pinyon
from pinyon.compat import pylibmc, pymemcache

#: A server's options; the largest pieces in bytes that it cuts values into, if that is not its choice; and the size of
#: a value that is too large for it.
SMALL = {
    "by default": ([], None, 1_048_517),
    "up to max_value_size": ([], None, 1_048_576),
    "64 KiB": (["-I", "64k"], 32_768, 65_477),
    "512 KiB": (["-I", "512k"], None, 524_229),
    "the smallest": (["-I", "1k"], 512, 965),
}

#: Clients, and a key of one byte or of the same size.
CLIENTS = {
    "plain key": ({}, "k"),
    "key without classic text": ({"encode_keys": True}, " "),
    "classic text": ({"protocol": "classic"}, "k"),
}

#: What a full server says of a small value.
FULL = "it has no memory left for items of this size"


@pytest.fixture(scope="module", params=SMALL.values(), ids=list(SMALL))
def small(request: pytest.FixtureRequest) -> Iterator[tuple[Memcached, bytes]]:
    """A server, and a value that is one byte or more too large for it."""
    options, pieces, size = request.param
    with contextlib.ExitStack() as stack:
        yield started(stack, options, pieces), b"x" * size


def started(stack: contextlib.ExitStack, options: list[str], pieces: int | None) -> Memcached:
    if pieces is None:
        return stack.enter_context(Memcached(*options))
    try:
        return stack.enter_context(Memcached(*options, "-o", f"slab_chunk_max={pieces}"))
    except RuntimeError:  # newer versions count kilobytes
        return stack.enter_context(Memcached(*options, "-o", f"slab_chunk_max={-(-pieces // 1024)}"))


@pytest.fixture
def full() -> Iterator[Memcached]:
    """A server that has no memory left for items of 100 bytes. It has the item "key"."""
    with Memcached("-m", "2", "-M") as server:
        server.ask(b"set key 0 0 3\r\nold\r\n", b"\r\n")
        fill(server, 100)
        yield server


def fill(server: Memcached, size: int) -> None:
    """Stores items of a size until the server has no room for another."""
    numbers, value = itertools.count(), b"x" * size
    at_once, stored = 1 + 20_000 // (100 + size), True
    with server.connect() as connection, connection.makefile("rb") as replies:
        while stored:
            some = [b"set fill:%d:%d 0 0 %d\r\n%s\r\n" % (size, next(numbers), size, value) for _ in range(at_once)]
            connection.sendall(b"".join(some))
            said = [replies.readline() for _ in some]
            stored = set(said) == {b"STORED\r\n"}


async def refused(call: Any) -> pinyon.Error:
    with pytest.raises((pinyon.ValueTooLarge, pinyon.ServerError)) as raised:
        await call
    return raised.value


@pytest.mark.parametrize(("settings", "key"), CLIENTS.values(), ids=list(CLIENTS))
@every_model
async def test_a_conditional_store_of_a_value_too_large_keeps_the_item(
    small: tuple[Memcached, bytes], model: Model, connect: Callable[..., Any], settings: dict[str, Any], key: str
) -> None:
    server, large = small
    client = connect(server, timeout=20, connect_timeout=20, **settings)
    await client.set(key, b"old")
    token = (await client.gets(key))[1]
    stores = [
        client.add(key, large),
        client.replace(key, large),
        client.append(key, large),
        client.prepend(key, large),
        client.cas(key, large, token),
        client.cas(key, large, token - 1),
    ]
    for store in stores:
        error = await refused(store)
        assert isinstance(error, pinyon.ValueTooLarge)
        assert f"{len(large)} bytes, more than the server stores: raise its option -I" in str(error)
        assert await client.get(key) == b"old"
    assert await client.append(key, b"er")
    assert await client.get(key) == b"older"


@pytest.mark.parametrize(("settings", "key"), CLIENTS.values(), ids=list(CLIENTS))
@every_model
async def test_a_large_conditional_store_that_fits_is_carried_out(
    server: Memcached, model: Model, connect: Callable[..., Any], settings: dict[str, Any], key: str
) -> None:
    client = connect(server, timeout=20, connect_timeout=20, **settings)
    most = b"x" * (1_048_516 - 64)
    assert await client.add(key, most) is True
    assert await client.add(key, most) is False
    assert await client.replace(key, most[:-5]) is True
    assert await client.append(key, b"12345") is True
    value, token = await client.gets(key)
    assert (len(value), value[-5:]) == (len(most), b"12345")
    assert await client.cas(key, most, token) is True
    assert await client.cas(key, most, token) is False
    assert await client.delete(key)
    assert await client.cas(key, most, token) is None
    assert await client.replace(key, most) is False


@pytest.mark.parametrize("key", ["k", " "], ids=["plain key", "key without classic text"])
@every_model
async def test_an_add_in_a_batch_of_a_value_too_large_keeps_the_item(
    small: tuple[Memcached, bytes], model: Model, connect: Callable[..., Any], key: str
) -> None:
    server, large = small
    client = connect(server, timeout=20, connect_timeout=20, encode_keys=True)
    await client.set_many({key: b"old", "before": 0, "after": 0})

    async def run() -> None:
        async with client.quiet() as batch:
            await batch.set("before", 1)
            await batch.add(key, large)
            await batch.set("after", 1)

    with pytest.raises(pinyon.BatchError) as raised:
        await run()
    assert [(failure.key, type(failure.error)) for failure in raised.value.failures] == [(key, pinyon.ValueTooLarge)]
    assert await client.get_many([key, "before", "after"]) == {key: b"old", "before": 1, "after": 1}


@every_model
async def test_get_or_set_of_a_value_too_large_keeps_the_old_one(
    small: tuple[Memcached, bytes], model: Model, connect: Callable[..., Any]
) -> None:
    server, large = small
    client = connect(server, timeout=20, connect_timeout=20)
    await client.set("k", b"old", ttl=60)
    await client.delete("k", stale=60)
    error = await refused(client.get_or_set("k", lambda: large, ttl=60))
    assert isinstance(error, pinyon.ValueTooLarge)
    found = await client.lease("k")
    assert found.value == b"old", "it is still there, and the next caller wins it"
    assert found.state is pinyon.Outcome.WON


@every_model
async def test_a_full_server_says_what_to_do_and_conditional_stores_keep_the_item(
    full: Memcached, model: Model, connect: Callable[..., Any]
) -> None:
    client = connect(full, timeout=20, connect_timeout=20)
    value = b"y" * 100
    for store in (client.add("key", value), client.replace("key", value), client.append("key", value)):
        error = await refused(store)
        assert isinstance(error, pinyon.ServerError)
        assert FULL in str(error)
        assert "its option -m" in str(error)
        assert await client.get("key") == b"old"
    token = (await client.gets("key"))[1]
    assert FULL in str(await refused(client.cas("key", value, token - 1)))
    assert await client.get("key") == b"old"


@pytest.mark.parametrize(("settings", "key"), CLIENTS.values(), ids=list(CLIENTS))
@every_model
async def test_a_set_that_a_full_server_refuses_leaves_no_old_value(
    full: Memcached, model: Model, connect: Callable[..., Any], settings: dict[str, Any], key: str
) -> None:
    fill(full, 1)
    keys = [key, f"{key}2"]
    for number, wire in enumerate(keys):
        # Items of another size give theirs up for these.
        full.ask(b"delete fill:1:%d\r\n" % number, b"\r\n")
        await connect(full, timeout=20, connect_timeout=20, **settings).set(wire, b"o")
    client = connect(full, timeout=20, connect_timeout=20, **settings)
    assert await client.get_many(keys) == dict.fromkeys(keys, b"o")
    assert FULL in str(await refused(client.set(key, b"y" * 100)))
    assert await client.get(key) is None
    patient = client.using(on_failure="miss")
    assert await patient.set_many(dict.fromkeys(keys, b"y" * 100)) == keys
    assert await client.get_many(keys) == {}


@every_model
async def test_with_misses_what_is_refused_is_not_stored_and_nothing_is_raised(
    full: Memcached, model: Model, connect: Callable[..., Any]
) -> None:
    fill(full, 1)
    client = connect(full, timeout=20, connect_timeout=20, on_failure="miss")
    value, large = b"y" * 100, b"y" * 2_000_000
    for stored in (value, large):
        assert await client.set("new", stored) is False
        assert await client.add("new", stored) is False
        assert await client.cas("key", stored, 1) is None
        assert await client.set_many({"new": stored, "newer": stored}) == ["new", "newer"]
    assert await client.get_or_set("new", lambda: value, ttl=60) == value
    assert await client.incr("counter", initial=5) is None
    for _ in range(2):
        assert await client.get_or_set("large", lambda: large, ttl=60, lease=600) == large
    with pytest.raises(pinyon.UnsupportedType):
        await client.set("new", object())


@pytest.fixture
def without_room() -> Iterator[Memcached]:
    """A server that has memory left for small values only."""
    with Memcached("-m", "8", "-M") as server:
        fill(server, 400_000)
        yield server


def test_a_large_value_that_a_full_server_read_in_part_is_told_apart(without_room: Memcached) -> None:
    with pinyon.Client(without_room.address, timeout=20, connect_timeout=20) as client:
        client.set("key", b"old")
        with pytest.raises(pinyon.ServerError, match="during read.*" + FULL):
            client.set("key", b"y" * 900_000)
        assert client.get("key") == b"old"


def test_an_add_of_another_clients_interface_keeps_the_item(server: Memcached) -> None:
    large = b"x" * 1_048_560
    host, port = server.address.split(":")
    client = pymemcache.Client((host, int(port)), timeout=20, connect_timeout=20)
    client.set("key", b"old")
    with pytest.raises(pymemcache.MemcacheServerError):
        client.add("key", large, noreply=False)
    assert client.get("key") == b"old"
    other = pylibmc.Client([server.address])
    with pytest.raises(pylibmc.TooBig):
        other.add("key", large)
    assert other.get("key") == b"old"
