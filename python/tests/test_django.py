"""Pinyon as Django's cache, in addition to Django's own tests of every backend (test_django_suite.py)."""

from __future__ import annotations

import asyncio
import datetime
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.cache.backends.base import BaseCache, InvalidCacheBackendError, InvalidCacheKey
from django.core.cache.backends.memcached import PyLibMCCache, PyMemcacheCache
from django.utils.safestring import SafeString
from faulty import FaultyServer, Step
from models import Asyncio, Gevent, Model, every_model
from processes import what_it_prints
from servers import Memcached
from test_examples import serving, visit
from test_fork import in_child

import pinyon
import pinyon.gevent
from pinyon.frameworks.django import _CLIENTS, PinyonCache

Connect = Callable[..., Any]
ANY_OPTIONS = {"timeout": 20, "connect_timeout": 20}
A_DAY = 24 * 60 * 60


class CooperativeCache(PinyonCache):
    """A cache as in a process that gevent has patched."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class = pinyon.gevent.Client


class Scenario:
    """A cache in any model: ``await cache.get(…)`` is ``aget`` in event loops, ``get`` in threads and greenlets."""

    def __init__(self, model: Model, cache: PinyonCache) -> None:
        self.prefix = "a" if isinstance(model, Asyncio) else ""
        self.cache = cache

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **settings: Any) -> Any:
            outcome = getattr(self.cache, self.prefix + name)(*arguments, **settings)
            return await outcome if self.prefix else outcome

        return call


@pytest.fixture(autouse=True)
def _clients() -> Iterator[None]:
    """Closes the clients that the process keeps: other tests have other servers at the same addresses."""
    yield
    for _, client in _CLIENTS:
        client.close()
    _CLIENTS.clear()


def cache_on(*servers: Memcached | str, **options: Any) -> PinyonCache:
    """Makes a cache like Django, which has one for each thread and request."""
    locations = [getattr(server, "address", server) for server in servers]
    return PinyonCache(locations, {"OPTIONS": {**ANY_OPTIONS, **options}})


@pytest.fixture
def cached_on(model: Model) -> Callable[..., Scenario]:
    def make(*servers: Memcached | str, **options: Any) -> Scenario:
        locations = [getattr(server, "address", server) for server in servers]
        backend = CooperativeCache if isinstance(model, Gevent) else PinyonCache
        return Scenario(model, backend(locations, {"OPTIONS": {**ANY_OPTIONS, **options}}))

    return make


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


def test_locations_are_written_as_for_djangos_backends(unix_memcached: Memcached) -> None:
    places = {
        "127.0.0.1:11211": ["127.0.0.1:11211"],
        "one:11211,two:11211": ["one:11211", "two:11211"],
        "one:11211; two:11211:3": ["one:11211", "two:11211:3"],
        "unix:/run/memcached": ["/run/memcached"],
        ("one", "[::1]:11211"): ["one", "[::1]:11211"],
    }
    for location, servers in places.items():
        assert PinyonCache(location, {}).client_servers == servers
    cache = cache_on(f"unix:{unix_memcached.path}")
    cache.set("key", "value")
    assert cache.get("key") == "value"
    for location in ("", [], [("127.0.0.1", 11211)]):
        with pytest.raises(pinyon.InvalidServers):
            PinyonCache(location, {}).get("key")


def test_options_are_arguments_of_the_client(server: Memcached) -> None:
    cache = cache_on(server, namespace="app:", serializer="portable")
    cache.set("key", [1])
    assert server.holds("app::1:key")
    with pytest.raises(pinyon.UnsupportedType, match="does not take tuple"):
        cache.set("key", (1,))
    with pytest.raises(InvalidCacheBackendError, match=r"no_delay.*docs/django\.md"):
        cache_on(server, no_delay=True).get("key")
    with pytest.raises(pinyon.UsageError, match="timeout"):
        cache_on(server, timeout=-1).get("key")


def test_a_password_is_in_no_text_about_a_cache(guarded_memcached: Memcached) -> None:
    cache = cache_on(guarded_memcached, username="app", password="wrong-horse")
    with pytest.raises(pinyon.Error) as raised:
        cache.get("key")
    assert "wrong-horse" not in f"{cache!r} {cache} {cache._cache!r} {raised.value!r}"


VALUES = {
    "text": "größer",
    "bytes": b"\0\xff",
    "number": -7,
    "None": None,
    "float": 1.5,
    "tuple": (1, {2}),
    "fragment": SafeString("<b>"),
    "time": datetime.datetime(2026, 1, 1),
    "page": "x" * 100_000,
}


@pytest.mark.parametrize("other", [PyMemcacheCache, PyLibMCCache], ids=lambda other: other.__name__)
def test_a_pool_is_shared_with_djangos_own_backends(server: Memcached, other: type[BaseCache]) -> None:
    """While an application moves, both backends are in use."""
    theirs, ours = other(server.address, {"KEY_PREFIX": "app"}), PinyonCache(server.address, {"KEY_PREFIX": "app"})
    for writer, reader in ((theirs, ours), (ours, theirs)):
        writer.set_many(VALUES, timeout=60)
        read, own = reader.get_many(VALUES), writer.get_many(VALUES)
        assert read == own == VALUES
        assert [type(read[key]) for key in VALUES] == [type(own[key]) for key in VALUES]
        for flag in (True, False):
            writer.set("flag", flag)
            assert reader.get("flag") == flag
        writer.set("count", 41)
        assert reader.incr("count") == 42
        assert writer.incr("count") == 43
        assert reader.add("count", 1) is False
        assert reader.delete("count") is True
    theirs.close()


def test_caches_of_all_threads_share_a_client(own_server: Memcached) -> None:
    before, together = own_server.statistic("total_connections"), threading.Barrier(8)

    def request(number: int) -> Any:
        cache = cache_on(own_server, max_connections=2)
        together.wait(60)
        for turn in range(50):
            cache.set(f"{number}", turn)
            assert cache.get(f"{number}") == turn
            cache.close()
        return cache._cache

    with ThreadPoolExecutor(8) as threads:
        clients = set(threads.map(request, range(8)))
    assert len(clients) == 1
    assert own_server.has_connections(2, at_least=1)
    asking, used = 2, 2
    assert own_server.statistic("total_connections") <= before + asking + used
    assert cache_on(own_server, max_connections=3)._cache not in clients


GREENLETS = """
from gevent import monkey
monkey.patch_all()
import gevent, sys
from pinyon.frameworks.django import PinyonCache

def request(number):
    cache = PinyonCache(sys.argv[1], {})
    cache.set(str(number), number)
    assert cache.get(str(number)) == number
    return cache._cache._driver.__module__

print({each.get() for each in [gevent.spawn(request, number) for number in range(50)]})
"""


def test_caches_of_all_greenlets_share_a_client_that_lets_others_run(own_server: Memcached) -> None:
    before, asking, used = own_server.statistic("total_connections"), 1, 1
    assert what_it_prints(GREENLETS, own_server.address) == "{'pinyon._gevent_driver'}"
    assert own_server.statistic("total_connections") == before + asking + used


def test_caches_of_several_event_loops_share_a_client(own_server: Memcached) -> None:
    before = own_server.statistic("total_connections")

    async def requests(name: str) -> None:
        async def request(number: int) -> None:
            cache = cache_on(own_server)
            await cache.aset(f"{name}:{number}", number)
            assert await cache.aget(f"{name}:{number}") == number
            await cache.aclose()

        for _ in range(3):
            await asyncio.gather(*(request(number) for number in range(20)))

    with ThreadPoolExecutor(2) as threads:
        for _ in threads.map(lambda name: asyncio.run(requests(name)), "ab"):
            pass
    asyncio.run(requests("c"))
    asking, loops = 1, 3
    assert own_server.statistic("total_connections") == before + asking + loops


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_worker_has_connections_of_its_own(own_server: Memcached) -> None:
    cache = cache_on(own_server)
    cache.set("key", "value")

    def worker() -> tuple[Any, Any, bool]:
        # A loop that is closed takes its connection along.
        return cache.get("key"), asyncio.run(cache.aget("key")), own_server.has_connections(2)

    assert in_child(worker) == ("value", "value", True)
    assert cache.get("key") == "value"
    assert own_server.has_connections(1)


SERVED = {
    "threads": ("gunicorn", "--threads", "4", "django_site:wsgi"),
    "gevent": ("gunicorn", "--worker-class", "gevent", "django_site:wsgi"),
    "asyncio": ("uvicorn", "django_site:asgi"),
}
#: The most connections: of threads; of a hub; and of a loop and the thread for views that are not awaited.
AT_MOST = {"threads": 4, "gevent": 1, "asyncio": 2}


@pytest.mark.parametrize("name", SERVED)
def test_a_site_keeps_its_connections_over_requests(name: str, own_server: Memcached) -> None:
    program, *arguments = SERVED[name]
    place = ["--port", "PORT", "--log-level", "warning"]
    if program == "gunicorn":
        place = ["--bind", "127.0.0.1:PORT", "--no-control-socket", "--log-level", "warning", "--graceful-timeout", "1"]
    page = "awaited/a%20page" if name == "asyncio" else "a%20page"
    with serving(program, *place, *arguments, caches=own_server) as address:
        with ThreadPoolExecutor(8) as visitors:
            counts = list(visitors.map(lambda _: visit(f"{address}/{page}"), range(60)))
        assert sorted(map(int, counts)) == list(range(1, 61))
        assert own_server.has_connections(AT_MOST[name], at_least=1)
        before, asking = own_server.statistic("total_connections"), 1
        assert visit(f"{address}/{page}") == "61\n"
        assert own_server.statistic("total_connections") == before + asking
        own_server.stop()
        assert visit(f"{address}/{page}") == "unknown\n"


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
    said = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert ["_Gone" in line for line in said] == [True], "one line for the class"


def test_reading_can_raise_instead(server: Memcached, gone: Callable[[], None]) -> None:
    cache = PinyonCache(server.address, {"OPTIONS": {**ANY_OPTIONS, "on_unreadable": "raise"}})
    cache.set("one", _Gone())
    gone()
    with pytest.raises(pinyon.UndecodableValue, match="_Gone"):
        cache.get("one")
