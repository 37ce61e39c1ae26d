"""Reading any number of keys in bounded memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from models import Asyncio, Model, every_model, on_asyncio
from servers import Memcached

import pinyon
import pinyon.aio

Connect = Callable[..., Any]


def iterated(cache: Any, keys: Any, **settings: Any) -> AsyncIterator[Any]:
    """The pairs, as they come in the cache's model."""
    if isinstance(cache, pinyon.aio.Client):
        return cache.iter_many(keys, **settings)
    return each(cache.wrapped.iter_many(keys, **settings))


async def each(pairs: Iterator[Any]) -> AsyncIterator[Any]:
    for pair in pairs:
        yield pair


class Taken:
    """An endless source of keys that counts those it gave."""

    def __init__(self, end: int = 10**9) -> None:
        self.count = 0
        self.end = end

    def __iter__(self) -> Iterator[str]:
        while self.count < self.end:
            self.count += 1
            yield f"key:{self.count}"

    async def later(self) -> AsyncIterator[str]:
        for key in self:
            await asyncio.sleep(0)
            yield key


@every_model
async def test_all_values_come_in_the_order_of_their_keys(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    await cache.set_many({f"key:{number}": number for number in range(1, 26)})
    await cache.delete_many(["key:3", "key:20"])
    expected = [(f"key:{number}", number) for number in range(1, 26) if number not in (3, 20)]
    for chunk in (1, 10, 25, 100):
        assert [pair async for pair in iterated(cache, Taken(30), chunk=chunk)] == expected
    assert [pair async for pair in iterated(cache, [b"key:1", "key:2"])] == [(b"key:1", 1), ("key:2", 2)]
    assert [pair async for pair in iterated(cache, [])] == []


@every_model
async def test_few_keys_are_taken_ahead(model: Model, server: Memcached, connect: Connect) -> None:
    cache, keys = connect(server), Taken()
    await cache.set_many({f"key:{number}": number for number in range(1, 101)})
    ahead = 2 if isinstance(model, Asyncio) else 1
    pairs = iterated(cache, keys, chunk=10)
    for number in range(1, 61):
        assert await pairs.__anext__() == (f"key:{number}", number)
        assert keys.count <= ((number - 1) // 10 + ahead) * 10
    await pairs.aclose()  # type: ignore[attr-defined]
    assert await cache.get("key:1") == 1, "the client is as before"


@on_asyncio
async def test_keys_may_come_asynchronously(model: Model, server: Memcached, connect: Connect) -> None:
    cache, keys = connect(server), Taken(25)
    await cache.set_many({f"key:{number}": number for number in range(1, 26)})
    found = [pair async for pair in cache.iter_many(keys.later(), chunk=10)]
    assert found == [(f"key:{number}", number) for number in range(1, 26)]
    endless = Taken()
    source = endless.later()
    pairs = cache.iter_many(source, chunk=10)
    assert await pairs.__anext__() == ("key:1", 1)
    await pairs.aclose()
    await source.aclose()  # type: ignore[attr-defined]
    assert endless.count <= 20


@every_model
async def test_an_error_comes_with_its_chunk(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    await cache.set_many({"key:1": 1, "key:2": 2, "key:4": 4})
    await cache.append("key:2", b"x")
    for last, partial in (("key:2", {}), ("with space", None)):
        pairs = iterated(cache, ["key:1", last], chunk=1)
        assert await pairs.__anext__() == ("key:1", 1)
        with pytest.raises((pinyon.UndecodableValue, pinyon.InvalidKey)) as raised:
            await pairs.__anext__()
        assert raised.value.partial == partial
    failed: dict[str, Any] = {}
    pairs = iterated(cache, ["key:1", "key:2", "key:4"], chunk=1, failed=failed)
    assert [pair async for pair in pairs] == [("key:1", 1), ("key:4", 4)]
    assert failed.keys() == {"key:2"}


@on_asyncio
async def test_what_was_asked_for_ahead_is_abandoned(model: Model, server: Memcached, connect: Connect) -> None:
    """Otherwise the loop would report that nobody took its error."""
    cache = connect(server)
    await cache.set("key:1", 1)
    await cache.set("key:2", "text")
    await cache.append("key:2", b"\x80")
    pairs = cache.iter_many(["key:1", "key:2"], chunk=1)
    assert await pairs.__anext__() == ("key:1", 1)
    with pytest.raises(pinyon.UndecodableValue):
        await cache.get("key:2")
    await pairs.aclose()
    del pairs
    gc.collect()


@pytest.mark.parametrize("client", [pinyon.Client("127.0.0.1:1"), pinyon.aio.Client("127.0.0.1:1")])
def test_what_makes_no_sense_is_refused_at_once(client: Any) -> None:
    for keys in ("key", b"key", 5, None):
        with pytest.raises(pinyon.UnsupportedType, match="keys must be a list"):
            client.iter_many(keys)
    for chunk in (0, -1, 1.5):
        with pytest.raises(pinyon.UsageError, match="chunk is how many keys"):
            client.iter_many(["key"], chunk=chunk)


def test_keys_that_come_asynchronously_are_for_asyncio() -> None:
    with pytest.raises(
        pinyon.UnsupportedType, match=r"not async_generator; asynchronous iterables are for pinyon\.aio"
    ):
        pinyon.Client("127.0.0.1:1").iter_many(Taken().later())  # type: ignore[type-var]
