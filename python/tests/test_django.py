"""Pinyon as Django's cache, in addition to Django's own tests of every backend (test_django_suite.py)."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from django.core.cache.backends.base import InvalidCacheKey
from django.utils.safestring import SafeString
from django_caches import ANY_OPTIONS, Connect, Scenario, _clients, cached_on
from faulty import FaultyServer, Step
from models import Model, every_model
from servers import Memcached

import pinyon
import pinyon.aio
import pinyon.gevent
from pinyon.frameworks.django import PinyonCache

A_DAY = 24 * 60 * 60

__all__ = ["_clients", "cached_on"]


@every_model
async def test_a_stored_value_is_never_taken_for_a_miss(server: Memcached, model: Model, cached_on: Connect) -> None:
    cache = cached_on(server)
    for value in (None, False, 0, 0.0, 1.5, "", b"", [], SafeString("<b>"), datetime.date(2026, 1, 1)):
        await cache.set("key", value)
        read = [await cache.get("key", "default"), await cache.get_or_set("key", "default")]
        read.append((await cache.get_many(["key", "missing"]))["key"])
        assert read == [value] * 3
        assert {type(each) for each in read} == {type(value)}
        assert await cache.has_key("key") is True
        assert await cache.add("key", "another") is False
        assert await cache.incr_version("key") == 2
        assert await cache.get("key", "default", version=2) == value
        assert await cache.decr_version("key", version=2) == 1
    assert await cache.get("missing", False) is False
    assert await cache.has_key("missing") is False


@every_model
async def test_how_long_items_live(server: Memcached, model: Model, cached_on: Connect) -> None:
    cache = cached_on(server)
    with pinyon.Client(server.address, timeout=20, connect_timeout=20) as look:
        for timeout, ttl in ((60, 60), (None, None), (60.9, 60), (31 * A_DAY, 31 * A_DAY)):
            await cache.set("set", 1, timeout)
            await cache.set_many({"many": 1}, timeout)
            await cache.add(f"added:{timeout}", 1, timeout)
            await cache.set("touched", 1, 5)
            assert await cache.touch("touched", timeout) is True
            for key in ("set", "many", f"added:{timeout}", "touched"):
                left = look.meta(f":1:{key}").ttl
                assert left == ttl or abs(left - ttl) < 5
        for timeout in (0, -1, 0.9):
            await cache.set("key", 1)
            await cache.set("key", 2, timeout)
            assert await cache.get("key") is None
    assert await cache.touch("missing") is False


@every_model
async def test_what_cannot_be_stored_leaves_nothing_old_behind(
    server: Memcached, roomy: Memcached, model: Model, cached_on: Connect
) -> None:
    small, large = b"small", b"x" * (2 << 20)
    refusing_itself, refused_by_the_server = cached_on(server), cached_on(server, max_value_size=4 << 20)
    for cache in (refusing_itself, refused_by_the_server):
        await cache.set("key", small)
        with pytest.raises(pinyon.ValueTooLarge):
            await cache.set("key", large)
        assert await cache.get("key") is None
    await refusing_itself.set_many({"large": small, "other": small})
    with pytest.raises(pinyon.ValueTooLarge):
        await refusing_itself.set_many({"large": large, "other": small})
    assert await refusing_itself.get_many(["large", "other"]) == {}
    assert "large" in await refused_by_the_server.set_many({"large": large, "other": small})
    assert await refused_by_the_server.get("large") is None
    cache = cached_on(roomy, max_value_size=4 << 20)
    await cache.set("key", large)
    assert await cache.get("key") == large


@every_model
async def test_an_add_that_the_server_refuses_keeps_the_present_value(
    server: Memcached, model: Model, cached_on: Connect
) -> None:
    cache = cached_on(server)
    await cache.set("lock", b"holder")
    with pytest.raises(pinyon.ValueTooLarge):
        await cache.add("lock", b"x" * 1_048_520)
    assert await cache.get("lock") == b"holder"
    forgiving = cached_on(server, on_failure="miss")
    assert await forgiving.add("lock", b"x" * 1_048_520) is False
    assert await forgiving.get("lock") == b"holder"


@every_model
async def test_a_full_server_leaves_nothing_old_behind(
    faulty: Callable[..., FaultyServer], model: Model, cached_on: Connect
) -> None:
    full, deleted = Step("SERVER_ERROR Out of memory during read\r\n"), Step("DELETED\r\n")
    for on_failure in ("raise", "miss"):
        server = faulty(full, deleted, full, deleted, version="1.4.15")
        cache = cached_on(server, on_failure=on_failure)
        if on_failure == "raise":
            with pytest.raises(pinyon.ServerError, match="no memory left"):
                await cache.set("key", "value")
        else:
            assert await cache.set("key", "value") is None
        assert await cache.set_many({"key": "value"}) == ["key"]
        sent = [request.split()[:2] for request in server.requests]
        assert sent == [[b"set", b":1:key"], [b"delete", b":1:key"]] * 2


@every_model
async def test_with_misses_a_refused_value_is_not_stored(server: Memcached, model: Model, cached_on: Connect) -> None:
    cache, large = cached_on(server, on_failure="miss"), b"x" * (2 << 20)
    await cache.set("key", b"small")
    assert await cache.set("key", large) is None
    assert await cache.get("key") is None
    assert await cache.get_or_set("key", large) == large
    await cache.set("key", b"small")
    assert await cache.set_many({"key": large, "other": 1}) == ["key"]
    assert await cache.get_many(["key", "other"]) == {"other": 1}


@every_model
async def test_a_timeout_of_twenty_years_is_as_long_as_the_server_can_keep_it(
    server: Memcached, model: Model, cached_on: Connect
) -> None:
    cache = cached_on(server)
    await cache.set("key", 1, 20 * 365 * A_DAY)
    assert await cache.touch("key", 100 * 365 * A_DAY) is True
    assert await cache.get("key") == 1


@every_model
async def test_a_server_that_does_not_store_does_not_keep_the_old_value_either(
    faulty: Callable[..., FaultyServer], model: Model, cached_on: Connect
) -> None:
    server = faulty(Step("NOT_STORED\r\n"), Step("DELETED\r\n"), version="1.4.15")
    assert await cached_on(server).set("key", "value") is None
    assert [request.split()[:2] for request in server.requests] == [[b"set", b":1:key"], [b"delete", b":1:key"]]


@every_model
async def test_keys_are_those_that_memcached_takes(server: Memcached, model: Model, cached_on: Connect) -> None:
    cache, encoding = cached_on(server), cached_on(server, encode_keys=True)
    longest, unicode = "k" * 247, "ü" * 123
    for key in (longest, unicode):
        await cache.set(key, key)
        assert await cache.get_many([key]) == {key: key}
    for key in (longest + "k", unicode + "ü", "two words", "new\nline", "null\0"):
        for name, arguments in {
            **dict.fromkeys(("get", "delete", "touch", "incr", "decr", "has_key", "incr_version"), (key,)),
            **dict.fromkeys(("set", "add", "get_or_set"), (key, 1)),
            **dict.fromkeys(("get_many", "delete_many"), ([key, "b"],)),
            "set_many": ({key: 1, "b": 2},),
        }.items():
            with pytest.raises(InvalidCacheKey):
                await getattr(cache, name)(*arguments)
        await encoding.set(key, "value")
        assert await encoding.get_many([key]) == {key: "value"}
    assert await cache.get("b") is None


@every_model
async def test_counting_what_is_no_number(server: Memcached, model: Model, cached_on: Connect) -> None:
    cache = cached_on(server)
    for name in ("incr", "decr", "incr_version", "decr_version"):
        with pytest.raises(ValueError, match=r"Key '.*missing' not found"):
            await getattr(cache, name)("missing")
    await cache.set("text", "text")
    with pytest.raises(pinyon.ServerError):
        await cache.incr("text")
    await cache.set("number", 5)
    assert [await cache.incr("number", -2), await cache.decr("number", -4), await cache.decr("number", 9)] == [3, 7, 0]


@every_model
async def test_pages_are_served_while_no_server_answers(
    own_server: Memcached, model: Model, cached_on: Connect
) -> None:
    cache = cached_on(own_server, on_failure="miss")
    await cache.set("key", "value")
    own_server.stop()
    for _ in range(3):
        assert await cache.get("key", "default") == "default"
        assert await cache.get_or_set("key", lambda: "made") == "made"
        assert await cache.get_many(["key"]) == {}
        assert await cache.set("key", 1) is None
        assert await cache.set_many({"key": 1, "other": 2}) == ["key", "other"]
        assert await cache.delete_many(["key"]) is None
        refused = [await cache.add("key", 1), await cache.touch("key"), await cache.delete("key")]
        assert refused == [False] * 3
        with pytest.raises(ValueError, match="not found"):
            await cache.incr("key")
    own_server.restart()
    while not await cache.add("back", True):
        await model.sleep(0.05)
    assert await cache.get("back") is True


@every_model
async def test_a_failure_is_raised_unless_it_is_to_be_a_miss(model: Model, cached_on: Connect) -> None:
    cache = cached_on("127.0.0.1:1")
    for name, arguments in {"get": ("key",), "set": ("key", 1), "get_many": (["key"],), "clear": ()}.items():
        with pytest.raises((pinyon.ConnectError, pinyon.ServerDown)):
            await getattr(cache, name)(*arguments)


class _Gone:
    """A class that a deployment removes."""


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Removes the class."""
    return lambda: monkeypatch.delattr(f"{__name__}._Gone")


@every_model
async def test_a_value_whose_class_is_gone_is_a_miss(
    model: Model, server: Memcached, gone: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    if model.name == "gevent":
        pytest.skip("Django's caches are shared by threads and event loops")
    cache = Scenario(model, PinyonCache(server.address, {"OPTIONS": ANY_OPTIONS}))
    for key in ("one", "two", "three", "four"):
        await cache.set(key, _Gone())
    await cache.set("good", 1)
    gone()
    assert await cache.get("one", "default") == "default"
    assert await cache.get_many(["one", "good"]) == {"good": 1}
    assert await cache.has_key("one") is False
    assert await cache.get_or_set("one", lambda: 2) == 2
    assert await cache.get("one") == 2
    assert await cache.get_or_set("two", 3) == 3
    assert await cache.get("two") == 3
    assert await cache.add("three", 4) is False, "the key is taken"
    await cache.set("three", 4)
    assert await cache.get("three") == 4
    # Python 3.14 says it in another order than those before.
    words = ("cannot be read", "'_Gone'", f"module '{__name__}'")
    said = [line for line in caplog.messages if all(each in line for each in words)]
    assert len(said) == 1, "one line for the class"


def test_reading_can_raise_instead(server: Memcached, gone: Callable[[], None]) -> None:
    cache = PinyonCache(server.address, {"OPTIONS": {**ANY_OPTIONS, "on_unreadable": "raise"}})
    cache.set("one", _Gone())
    gone()
    with pytest.raises(pinyon.UndecodableValue, match="_Gone"):
        cache.get("one")


@every_model
async def test_clear_empties_the_namespace_of_a_clearable_cache(
    model: Model, server: Memcached, client: pinyon.Client, cached_on: Connect
) -> None:
    cache = cached_on(server, namespace="site:", clearable=True, generation_ttl=0)
    client.set("other", 1)
    await cache.set("key", 1)
    await cache.clear()
    assert await cache.get("key") is None
    assert client.get("other") == 1
