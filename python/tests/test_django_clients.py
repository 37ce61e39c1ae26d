"""The clients behind Django's caches: what they are made of, and who shares them."""

from __future__ import annotations

import asyncio
import datetime
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.cache.backends.base import BaseCache, InvalidCacheBackendError
from django.core.cache.backends.memcached import PyLibMCCache, PyMemcacheCache
from django.utils.safestring import SafeString
from django_caches import ANY_OPTIONS, _clients, cache_on, cached_on
from processes import what_it_prints
from servers import Memcached
from test_examples import serving, visit
from test_fork import in_child

import pinyon
import pinyon.aio
import pinyon.gevent
from pinyon.frameworks.django import PinyonCache

__all__ = ["_clients", "cached_on"]


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
    theirs = other(server.address, {"KEY_PREFIX": "app"})
    ours = PinyonCache(server.address, {"KEY_PREFIX": "app", "OPTIONS": ANY_OPTIONS})
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
