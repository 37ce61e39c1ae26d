"""What Pinyon adds to Django's caches: leases, remaining seconds, locks, clients."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django_caches import Connect, _clients, cache_on, cached_on
from making import Maker, following
from models import Asyncio, Model, every_model
from servers import Memcached, Redis

import pinyon
import pinyon.aio
import pinyon.gevent
from pinyon.frameworks.django import PinyonCache

__all__ = ["_clients", "cached_on"]


@every_model
async def test_one_of_forty_callers_makes_a_missing_value(server: Memcached, model: Model, cached_on: Connect) -> None:
    cache, maker = cached_on(server), Maker(model, "value", held=True)
    tasks = [model.spawn(cache.get_or_set("key", maker.make, 60)) for _ in range(40)]
    client = cache.cache.aclient if cache.prefix else cache.cache.client
    await model.until(lambda: following(client) == 39 or maker.calls > 1)
    maker.held = False
    assert [await model.join(task) for task in tasks] == ["value"] * 40
    assert maker.calls == 1


@every_model
async def test_get_or_set_takes_the_terms_of_the_client(server: Memcached, model: Model, cached_on: Connect) -> None:
    cache = cached_on(server)
    assert await cache.get_or_set("key", lambda: None, 100, stale=1000) is None
    assert await cache.get_or_set("key", lambda: "another", 100, stale=1000) is None
    assert 1050 < await cache.ttl("key") <= 1100
    assert await cache.get_or_set("key", lambda: "another", 100, version=2, stale=0) == "another"
    assert await cache.get_or_set("plain", "a value", 100, stale=1000) == "a value"
    with pytest.raises(TypeError, match="stael"):
        await cache.get_or_set("key", lambda: 1, 100, stael=1)


@every_model
async def test_an_old_server_has_values_made_without_leases(
    server: Memcached, classic_server: Any, model: Model, cached_on: Connect
) -> None:
    cache = cached_on(classic_server.address)
    assert await cache.get_or_set("key", lambda: "made", 60) == "made"
    assert await cache.get_or_set("key", lambda: "another", 60) == "made"
    with pytest.raises(pinyon.Unsupported):
        await cache.get_or_set("key", lambda: "another", 60, stale=60)


@every_model
async def test_how_long_a_key_has_left(server: Memcached, model: Model, cached_on: Connect) -> None:
    cache = cached_on(server)
    await cache.set("minute", b"", 60)
    await cache.set("forever", 1, None)
    assert 55 < await cache.ttl("minute") <= 60
    assert await cache.ttl("forever") is None
    assert await cache.ttl("missing") == 0
    assert await cache.ttl("minute", version=2) == 0


@every_model
async def test_a_lock_of_a_cache(redis: Redis, model: Model) -> None:
    prefixes = {"KEY_PREFIX": "shop", "LOCKS": {"url": redis.url, "timeout": 0}}
    shop, same, other = (PinyonCache([], {**prefixes, **more}) for more in ({}, {}, {"KEY_PREFIX": "blog"}))
    if isinstance(model, Asyncio):
        async with shop.alock("order") as held, other.alock("order"):
            assert held.token > 0
            with pytest.raises(pinyon.AlreadyHeld):
                await same.alock("order").acquire()
        async with same.alock("order", ttl=5):
            pass
    else:
        with shop.lock("order") as held, other.lock("order"):
            assert held.token > 0
            with pytest.raises(pinyon.AlreadyHeld):
                same.lock("order").acquire()
        with same.lock("order", ttl=5):
            pass


def test_locks_need_a_server(server: Memcached) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOCKS"):
        cache_on(server).lock("order")
    with pytest.raises(ImproperlyConfigured, match=r"LOCKS .* pinyon\.Locks"):
        PinyonCache([], {"LOCKS": {"url": "redis://127.0.0.1", "blocking": True}}).lock("order")


def test_the_client_behind_a_cache_has_its_keys(server: Memcached) -> None:
    cache = cache_on(server)
    cache.set("key", "value")
    assert cache.client.get(cache.make_key("key")) == "value"
    assert isinstance(cache.aclient, pinyon.aio.Client)
