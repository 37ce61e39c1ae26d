"""The client as a mapping, and the ttl of values that are stored without one."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from making import awaited
from models import Model, every_model
from servers import Memcached

import pinyon
import pinyon.aio
import pinyon.gevent

Connect = Callable[..., Any]
DAY = 24 * 60 * 60


@pytest.fixture(params=[pinyon.Client, pinyon.gevent.Client])
def cache(request: pytest.FixtureRequest, server: Memcached) -> Any:
    with request.param(server.address, timeout=30, connect_timeout=30) as client:
        yield client


def test_items_are_read_stored_and_deleted(cache: Any) -> None:
    assert "key" not in cache
    with pytest.raises(KeyError, match=r"^'key'$"):
        cache["key"]
    cache["key"] = {"a": 1}
    cache[b"none"] = None
    assert cache["key"] == {"a": 1}
    assert cache["none"] is None
    assert "key" in cache
    assert b"none" in cache
    del cache["key"]
    assert "key" not in cache
    with pytest.raises(KeyError, match=r"^'key'$"):
        del cache["key"]


def test_a_client_cannot_be_iterated_over(cache: Any, server: Memcached) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        iter(cache)
    with pytest.raises(TypeError, match="not iterable"):
        iter(pinyon.aio.Client(server.address))


def test_what_fails_is_raised_or_a_miss(free_address: str) -> None:
    strict, lenient = pinyon.Client(free_address), pinyon.Client(free_address, on_failure="miss")
    with pytest.raises(pinyon.Error):
        strict["key"]
    with pytest.raises(pinyon.Error):
        assert "key" in strict
    with pytest.raises(pinyon.Error):
        strict["key"] = 1
    assert "key" not in lenient
    lenient["key"] = 1
    with pytest.raises(KeyError):
        lenient["key"]


@pytest.fixture
def free_address() -> str:
    return "127.0.0.1:1"


def test_what_cannot_be_awaited_says_what_can(server: Memcached) -> None:
    cache: Any = pinyon.aio.Client(server.address)
    with pytest.raises(pinyon.UsageError, match=r"use await client\.get\(key\)"):
        cache["key"]
    with pytest.raises(pinyon.UsageError, match=r"use await client\.set\(key, value\)"):
        cache["key"] = 1
    with pytest.raises(pinyon.UsageError, match=r"use await client\.delete\(key\)"):
        del cache["key"]
    with pytest.raises(pinyon.UsageError, match=r"use await client\.get\(key, default\)"):
        assert "key" in cache


async def left(cache: Any, key: str) -> int | None:
    found = await cache.meta(key)
    return None if found is None else found.ttl or 0


@every_model
async def test_values_are_stored_with_the_clients_ttl(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server, default_ttl=datetime.timedelta(minutes=5))
    view = cache.using(failover=False)
    await cache.set("set", 1)
    await cache.set_many({"set_many": 1})
    await cache.add("add", 1)
    await cache.add("replace", 1, 7)
    await cache.replace("replace", 1)
    await cache.add("cas", 1, 7)
    await cache.cas("cas", 2, (await cache.gets("cas"))[1])
    await cache.incr("incr", initial=1)
    await cache.decr("decr", initial=1)
    await view.set("view", 1)
    async with cache.quiet() as batch:
        await batch.set("batch", 1)
        await batch.set("batch:own", 1, 0)
    for key in ("set", "set_many", "add", "replace", "cas", "incr", "decr", "view", "batch"):
        assert 200 < (await left(cache, key) or 0) <= 300, key
    await cache.set("own", 1, ttl=0)
    await cache.incr("own:incr", initial=1, ttl=1000)
    assert [await left(cache, key) for key in ("own", "batch:own")] == [0, 0]
    assert (await left(cache, "own:incr") or 0) > 900
    lease = await cache.lease("lease")
    assert await awaited(lease.fulfil("value"))
    assert 200 < (await left(cache, "lease") or 0) <= 300
    await cache.set("passed_on", 1, ...)
    assert 200 < (await left(cache, "passed_on") or 0) <= 300


def test_items_are_stored_with_the_clients_ttl(server: Memcached) -> None:
    with pinyon.Client(server.address, default_ttl=40 * DAY, timeout=30, connect_timeout=30) as cache:
        cache["key"] = 1
        found = cache.meta("key")
        assert found is not None
        assert found.ttl is not None
        assert found.ttl > 39 * DAY


def test_a_ttl_of_none_is_refused_still(client: pinyon.Client) -> None:
    with pytest.raises(pinyon.UnsupportedType, match="for an item that never expires give 0"):
        client.set("key", 1, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("default", [-1, float("nan")])
def test_a_default_ttl_that_makes_no_sense_is_refused(default: float) -> None:
    with pytest.raises(pinyon.UsageError, match="ttl"):
        pinyon.Client("127.0.0.1", default_ttl=default)
