"""Tools that patch a Django cache's methods see the asynchronous ones, too, which go on without threads."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest
from django_caches import _clients
from processes import what_it_prints
from servers import Memcached

import pinyon
from pinyon.frameworks.django import PATCHED, PinyonCache

__all__ = ["_clients"]

OPTIONS = {"timeout": 20, "connect_timeout": 20}


class Spy:
    """Patches methods as tools do: what replaces one calls it, and looks at what it returns or raises."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def patched(self, name: str, original: Any, skip: int = 0) -> Any:
        @functools.wraps(original)
        def method(*arguments: Any, **keywords: Any) -> Any:
            try:
                value = original(*arguments, **keywords)
            except Exception as error:
                self.seen.append((name, arguments[skip:], type(error)))
                raise
            self.seen.append((name, arguments[skip:], value))
            return value

        return method

    def patch(self, cache: PinyonCache) -> None:
        for name in PATCHED:
            setattr(cache, name, self.patched(name, getattr(cache, name)))


def cache_on(server: Any, **options: Any) -> PinyonCache:
    return PinyonCache(getattr(server, "address", server), {"OPTIONS": {**OPTIONS, **options}})


#: A call, and what it returns or raises.
CALLS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("set", ("key", 1), None),
    ("get", ("key",), 1),
    ("get", ("none", "default"), "default"),
    ("add", ("key", 2), False),
    ("touch", ("key", 60), True),
    ("incr", ("key", 5), 6),
    ("incr", ("none",), ValueError),
    ("set_many", ({"a": 1, "b": 2}, 60), []),
    ("get_many", (["a", "b", "none"],), {"a": 1, "b": 2}),
    ("delete_many", (["a", "b"],), None),
    ("delete", ("key",), True),
    ("clear", (), None),
]


def test_a_patch_sees_every_call_and_what_became_of_it(own_server: Memcached) -> None:
    cache, spy = cache_on(own_server), Spy()
    spy.patch(cache)

    async def use() -> None:
        for name, arguments, outcome in CALLS:
            if isinstance(outcome, type):
                with pytest.raises(outcome):
                    await getattr(cache, f"a{name}")(*arguments)
            else:
                assert await getattr(cache, f"a{name}")(*arguments) == outcome
        assert own_server.connections() == 1, "the blocking client was used, too"

    asyncio.run(use())
    assert {name for name, *_ in CALLS} == set(PATCHED)
    assert spy.seen == CALLS


def test_a_patch_sees_failures() -> None:
    cache, spy = cache_on("127.0.0.1:1"), Spy()
    spy.patch(cache)
    with pytest.raises(pinyon.ConnectError):
        asyncio.run(cache.aget("key"))
    assert spy.seen == [("get", ("key",), pinyon.ConnectError)]


def test_a_patch_of_the_class_sees_them_too(server: Memcached, monkeypatch: pytest.MonkeyPatch) -> None:
    spy, cache = Spy(), cache_on(server)
    monkeypatch.setattr(PinyonCache, "get", spy.patched("get", PinyonCache.get, skip=1))
    assert asyncio.run(cache.aget("key", "default")) == "default"
    assert cache.get("key", "default") == "default"
    assert spy.seen == [("get", ("key", "default"), "default")] * 2


def test_a_patch_that_changes_the_key_never_gets_another_keys_value(server: Memcached) -> None:
    cache = cache_on(server)
    cache.set_many({"key": "value", "own:key": "own value"})
    original = cache.get
    cache.get = lambda key, *arguments: original(f"own:{key}", *arguments)  # type: ignore[method-assign]
    assert asyncio.run(cache.aget("key")) == "own value"


def test_a_subclass_has_its_own_methods(server: Memcached) -> None:
    class Cache(PinyonCache):
        def get(self, key: str, *arguments: Any, **keywords: Any) -> Any:
            return "blocking"

    cache = Cache(server.address, {"OPTIONS": OPTIONS})
    assert asyncio.run(cache.aget("key", "default")) == "default"


def test_many_calls_at_once_are_told_apart(server: Memcached) -> None:
    cache, spy = cache_on(server), Spy()
    cache.set_many({f"key:{n}": n for n in range(50)})
    spy.patch(cache)

    async def use() -> None:
        assert await asyncio.gather(*(cache.aget(f"key:{n}") for n in range(50))) == list(range(50))

    asyncio.run(use())
    assert sorted(value for _, _, value in spy.seen) == list(range(50))


def test_a_strict_view_stays_strict(server: Memcached) -> None:
    cache = cache_on("127.0.0.1:1", on_failure="miss")
    Spy().patch(cache)
    assert cache.get("key") is None
    with pytest.raises(pinyon.Error):
        cache.strict().get("key")


WITH_SENTRY = """
import asyncio, sys
import django
from django.conf import settings
backend = "pinyon.frameworks.django.PinyonCache"
settings.configure(CACHES={"default": {"BACKEND": backend, "LOCATION": sys.argv[1]}})
import sentry_sdk
from sentry_sdk.integrations.django import DjangoIntegration
events = []
sentry_sdk.init(
    dsn="http://key@127.0.0.1:1/1",
    before_send_transaction=lambda event, hint: events.append(event),
    traces_sample_rate=1.0,
    integrations=[DjangoIntegration(cache_spans=True)],
    default_integrations=False,
)
django.setup()
from django.core.cache import cache

async def main():
    with sentry_sdk.start_transaction(name="view"):
        await cache.aset("key", "value")
        assert await cache.aget("key") == "value"
        assert await cache.aget("none") is None
        assert await cache.aget_many(["key"]) == {"key": "value"}

asyncio.run(main())
sentry_sdk.flush()
for event in events:
    for span in event.get("spans", ()):
        print(span["op"], span["data"].get("cache.key"), span["data"].get("cache.hit"))
"""


def test_sentry_has_spans_of_asynchronous_views(server: Memcached) -> None:
    said = what_it_prints(WITH_SENTRY, server.address).splitlines()
    expected = [
        "cache.put ['key'] None",
        "cache.get ['key'] True",
        "cache.get ['none'] False",
        "cache.get ['key'] True",
    ]
    assert said == expected
