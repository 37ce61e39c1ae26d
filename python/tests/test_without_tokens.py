"""memcached started with ``-C``: it has no CAS tokens. What needs one says so, and ``get_or_set`` does without."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiocache.lock import OptimisticLock, RedLock
from dogpile.cache import make_region
from models import Model, every_model
from servers import Memcached

import pinyon
from pinyon.frameworks.aiocache import PinyonCache

NO_TOKENS = "the server has no CAS tokens, because it was started with -C"


@pytest.fixture
def without_tokens() -> Iterator[Memcached]:
    """A server of its own: without tokens, ``flush_all`` also forgets what is stored in the same second."""
    with Memcached("-C") as server:
        yield server


@every_model
async def test_a_token_that_is_asked_for_is_unsupported(
    without_tokens: Memcached, model: Model, connect: Callable[..., Any]
) -> None:
    for protocol in ("auto", "classic"):
        client = connect(without_tokens, protocol=protocol)
        assert await client.gets("missing") is None
        assert await client.gets_many(["missing"]) == {}
        await client.set_many({"key": 1, "other": 2})
        for method, asked in (("gets", "key"), ("gets_many", ["key", "other"])):
            with pytest.raises(pinyon.Unsupported, match=NO_TOKENS) as raised:
                await getattr(client, method)(asked)
            assert raised.value.server == without_tokens.address
        assert await client.get_many(["key", "other"]) == {"key": 1, "other": 2}


@every_model
async def test_get_or_set_stores_at_once_and_has_one_maker(
    without_tokens: Memcached, model: Model, connect: Callable[..., Any]
) -> None:
    client, another = connect(without_tokens), connect(without_tokens)
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    began = time.monotonic()
    for each in (client, another, client):
        assert await each.get_or_set("key", make, ttl=600, lease=600) == 1
    await client.delete("key", stale=60)
    assert await another.get_or_set("key", make, ttl=600, lease=600) == 2
    assert await client.get("key") == 2

    def fail() -> int:
        raise ZeroDivisionError

    await client.delete("key")
    with pytest.raises(ZeroDivisionError):
        await client.get_or_set("key", fail, ttl=600, lease=600)
    assert await client.get_or_set("key", make, ttl=600, lease=600) == 3
    assert time.monotonic() - began < 300, "nobody waited for a lease to end"


@every_model
async def test_a_lease_by_hand_is_fulfilled_or_given_back(
    without_tokens: Memcached, model: Model, connect: Callable[..., Any]
) -> None:
    client = connect(without_tokens)
    lease = await client.lease("key", lease=600)
    assert (lease.state, (await client.lease("key")).state) == (pinyon.Outcome.WON, pinyon.Outcome.FILLING)
    fulfilled = lease.fulfil("value", ttl=60)
    assert (await fulfilled if hasattr(fulfilled, "__await__") else fulfilled) is True
    assert await client.get("key") == "value"


@every_model
async def test_a_token_that_no_server_gives_changes_nothing(
    server: Memcached, without_tokens: Memcached, model: Model, connect: Callable[..., Any]
) -> None:
    for each in (server, without_tokens):
        client = connect(each)
        await client.set("key", "value")
        for token in (0, 2**64 - 1):
            assert not await client.cas("key", "another", token)
        assert await client.get("key") == "value"


@every_model
async def test_a_value_that_cannot_be_read_is_replaced(
    without_tokens: Memcached, model: Model, connect: Callable[..., Any]
) -> None:
    writer, cache = connect(without_tokens), connect(without_tokens, serializer="pickle")
    await writer.set_many({"key": [1], "by_hand": [2], "kept": [3], "again": [4]})
    made: list[int] = []
    for _ in range(2):
        assert await cache.get_or_set("key", lambda: made.append(1) or "new", ttl=600, lease=600) == "new"
    assert made == [1]
    assert await writer.get_with_ttl("key") == ("new", 600)

    lease = await cache.lease("by_hand", lease=600)
    assert (lease.state, lease.has_value) == (pinyon.Outcome.WON, False)
    assert (await cache.lease("by_hand", lease=600)).state is pinyon.Outcome.FILLING
    assert await writer.get("by_hand") == [2], "those who can read it go on reading it"
    fulfilled = lease.fulfil("new", ttl=60)
    assert (await fulfilled if hasattr(fulfilled, "__await__") else fulfilled) is True
    assert await cache.get("by_hand") == "new"

    def fail() -> None:
        raise ZeroDivisionError

    for key in ("kept", "again"):
        with pytest.raises(ZeroDivisionError):
            await cache.get_or_set(key, fail, ttl=600, lease=600)
    assert await writer.get("kept") == [3]
    assert await cache.get_or_set("again", lambda: "new", ttl=600, lease=600) == "new"


def test_a_lock_of_dogpile_is_released(without_tokens: Memcached) -> None:
    settings = {"distributed_lock": True, "lock_timeout": 600, "timeout": 20, "connect_timeout": 20}
    arguments = {"url": without_tokens.address, **settings}
    regions = [make_region().configure("pinyon", arguments=arguments) for _ in range(2)]
    assert regions[0].get_or_create("key", lambda: 1) == 1
    one, other = (region.backend.get_mutex("key") for region in regions)
    assert one.acquire(wait=False)
    assert not other.acquire(wait=False)
    one.release()
    assert other.acquire(wait=False)
    one.acquire(wait=False)
    one.release()
    assert other.locked(), "it is released by its holder alone"
    other.release()
    assert not one.locked()


def test_a_lock_of_aiocache_is_released(without_tokens: Memcached) -> None:
    async def use() -> None:
        async with PinyonCache(without_tokens.address, timeout=20, connect_timeout=20) as cache:
            for _ in range(2):
                async with RedLock(cache, "key", 600):
                    assert await cache.exists("key-lock")
                assert not await cache.exists("key-lock")
            await cache.set("key", 1)
            with pytest.raises(pinyon.Unsupported, match=NO_TOKENS):
                await OptimisticLock(cache, "key").__aenter__()

    asyncio.run(use())
