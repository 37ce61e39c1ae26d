"""aiocache's cache on memcached, with its serializers, plugins, decorators and locks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiocache import cached, cached_stampede, caches, multi_cached
from aiocache.lock import OptimisticLock, OptimisticLockError, RedLock
from aiocache.plugins import HitMissRatioPlugin
from aiocache.serializers import MsgPackSerializer, NullSerializer, PickleSerializer, StringSerializer
from conftest import Setting
from models import Model, on_asyncio
from servers import Memcached

import pinyon
from pinyon.frameworks.aiocache import PinyonCache


@pytest.fixture
def made(server: Memcached) -> Callable[..., PinyonCache]:
    """Makes caches on the test's server."""

    def make(**settings: Any) -> PinyonCache:
        return PinyonCache(
            settings.pop("servers", server.address), **{"timeout": 20, "connect_timeout": 20, **settings}
        )

    return make


Made = Callable[..., PinyonCache]


async def ttl_of(cache: PinyonCache, key: str) -> int | None:
    item = await cache.client.meta(key)
    assert item is not None
    return item.ttl


@on_asyncio
async def test_values(model: Model, made: Made) -> None:
    async with made(namespace="app:") as cache:
        assert await cache.get("key") is None
        assert await cache.get("key", default=1) == 1
        assert await cache.exists("key") is False
        assert await cache.set("key", {"a": [1, None]}) is True
        assert await cache.get("key") == {"a": [1, None]}
        assert await cache.exists("key") is True
        assert await cache.add("new", "value") is True
        with pytest.raises(ValueError, match="app:new already exists"):
            await cache.add("new", "other")
        assert await cache.multi_set([("a", 1), ["b", "ü"]]) is True
        assert await cache.multi_get(["b", "missing", "a"]) == ["ü", None, 1]
        assert await cache.delete("key") == 1
        assert await cache.delete("key") == 0


@on_asyncio
async def test_namespaces(model: Model, made: Made, server: Memcached) -> None:
    async with made(namespace="app:") as cache:
        await cache.set("key", 1)
        await cache.set("key", 2, namespace="other:")
        assert server.holds("app:key")
        assert await cache.get("key", namespace="other:") == 2
        with pytest.raises(ValueError, match="cannot clear a namespace"):
            await cache.clear(namespace="app:")
        assert await cache.get("key") == 1
        assert await cache.clear() is True
        assert await cache.get("key", namespace="other:") is None


@on_asyncio
async def test_ttls(model: Model, made: Made) -> None:
    async with made(ttl=100) as cache:
        await cache.set("default", 1)
        await cache.set("own", 1, ttl=50.5)
        await cache.set("endless", 1, ttl=None)
        await cache.multi_set([("many", 1)], ttl=60)
        await cache.add("added", 1, ttl=70)
        ttls = [await ttl_of(cache, key) for key in ("default", "own", "many", "added")]
        assert ttls == pytest.approx([100, 51, 60, 70], abs=5)
        assert await ttl_of(cache, "endless") is None
        assert await cache.expire("endless", 30) is True
        assert await ttl_of(cache, "endless") == pytest.approx(30, abs=5)
        assert await cache.expire("endless", 0) is True
        assert await ttl_of(cache, "endless") is None
        assert await cache.expire("missing", 30) is False


@on_asyncio
async def test_numbers(model: Model, made: Made) -> None:
    async with made() as cache:
        assert await cache.increment("new", delta=2) == 2
        assert await cache.increment("new") == 3
        assert await cache.get("new") == 3
        assert await cache.increment("new", delta=-3) == 0
        assert await cache.increment("new", delta=-1) == 0
        assert await cache.increment("below", delta=-2) == -2
        await cache.set("limited", 5, ttl=100)
        assert await cache.increment("limited", delta=-3) == 2
        assert await ttl_of(cache, "limited") == pytest.approx(100, abs=5)
        await cache.set("text", "value")
        with pytest.raises(TypeError, match="cannot count with the value of 'text'"):
            await cache.increment("text")


class Thing:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("serializer", "value", "read"),
    [
        (StringSerializer(), 1.5, "1.5"),
        (PickleSerializer(), ("a", Thing()), ("a", Thing())),
        (MsgPackSerializer(encoding=None), {"a": b"\xff"}, {b"a": b"\xff"}),
        (NullSerializer(encoding=None), b"\x00\xff", b"\x00\xff"),
    ],
    ids=["text", "pickle", "MessagePack", "bytes"],
)
@on_asyncio
async def test_serializers(model: Model, made: Made, serializer: Any, value: Any, read: Any) -> None:
    async with made(serializer=serializer) as cache:
        await cache.set("key", value)
        assert await cache.get("key") == read
        assert await cache.multi_get(["key"]) == [read]


@on_asyncio
async def test_what_is_no_bytes_is_refused(model: Model, made: Made) -> None:
    async with made(serializer=NullSerializer()) as cache:
        with pytest.raises(TypeError, match="raw"):
            await cache.set("key", Thing())


@on_asyncio
async def test_any_key(model: Model, setting: Setting) -> None:
    if setting.classic:
        pytest.skip("encoded keys are for meta commands")
    async with PinyonCache(setting.servers, timeout=20, connect_timeout=20, namespace="a b:") as cache:
        keys = ["('a', 1)[]", "_", " ", "x" * 1000]
        await cache.multi_set([(key, key) for key in keys])
        assert await cache.multi_get(keys) == keys
        assert [await cache.get(key) for key in keys] == keys


@on_asyncio
async def test_raw_commands(model: Model, made: Made) -> None:
    async with made() as cache:
        assert await cache.raw("set", "key", b"value", ttl=5) is True
        assert await cache.raw("prepend", "key", b"super") is True
        assert await cache.raw("get", "key") == "supervalue"


@on_asyncio
async def test_a_closed_cache_goes_on(model: Model, own_server: Memcached) -> None:
    cache = PinyonCache(own_server.address, timeout=20, connect_timeout=20)
    await cache.set("key", 1)
    await cache.close()
    assert own_server.has_connections(0)
    assert await cache.get("key") == 1
    await cache.close()
    assert own_server.has_connections(0)


def test_one_cache_for_several_loops(made: Made) -> None:
    cache = made()

    async def count() -> int:
        return int(await cache.increment("loops"))

    assert [asyncio.run(count()) for _ in range(3)] == [1, 2, 3]


@on_asyncio
async def test_plugins_and_connections(model: Model, made: Made) -> None:
    async with made(plugins=[HitMissRatioPlugin()]) as cache, cache.get_connection() as connection:
        await connection.set("key", 1)
        await connection.get("key")
        await connection.get("missing")
        assert cache.hit_miss_ratio == {"total": 2, "hits": 1, "hit_ratio": 0.5}


@on_asyncio
async def test_decorators(model: Model, server: Memcached) -> None:
    made: list[Any] = []
    settings = {"cache": PinyonCache, "servers": server.address, "timeout": 20, "connect_timeout": 20}

    @cached(ttl=100, namespace="one:", **settings)
    async def one(number: int, *, text: str) -> list[Any]:
        made.append(number)
        return [number, text]

    @multi_cached("keys", namespace="many:", **settings)
    async def many(keys: list[str]) -> dict[str, str]:
        made.extend(keys)
        return {key: key.upper() for key in keys}

    @cached_stampede(lease=20, namespace="slow:", **settings)
    async def slow() -> str:
        made.append("slow")
        await asyncio.sleep(0.05)
        return "value"

    assert [await one(1, text="a b"), await one(1, text="a b")] == [[1, "a b"]] * 2
    assert await many(keys=["a", "b"]) == {"a": "A", "b": "B"}
    assert await many(keys=["b", "c"]) == {"b": "B", "c": "C"}
    assert await asyncio.gather(*(slow() for _ in range(5))) == ["value"] * 5
    assert made == [1, "a", "b", "c", "slow"]


@on_asyncio
async def test_it_is_configured_by_its_path(model: Model, server: Memcached, restored: None) -> None:
    config = {"cache": "pinyon.frameworks.aiocache.PinyonCache", "servers": server.address, "namespace": "app:"}
    caches.set_config({"default": {**config, "serializer": {"class": "aiocache.serializers.PickleSerializer"}}})
    cache = caches.get("default")
    await cache.set("key", ("a", "tuple"))
    assert await cache.get("key") == ("a", "tuple")
    assert server.holds("app:key")


@pytest.fixture
def restored() -> Iterator[None]:
    config = caches.get_config()
    yield
    caches.set_config(config)


@on_asyncio
async def test_an_optimistic_lock(model: Model, made: Made) -> None:
    async with made() as cache:
        async with OptimisticLock(cache, "missing") as lock:
            assert await lock.cas("first") is True
        await cache.set("key", "old")
        async with OptimisticLock(cache, "key") as lock:
            assert await lock.cas("new", ttl=50) is True
        assert await ttl_of(cache, "key") == pytest.approx(50, abs=5)
        async with OptimisticLock(cache, "key") as lock:
            await cache.set("key", "meanwhile")
            with pytest.raises(OptimisticLockError):
                await lock.cas("newer")
        assert await cache.get("key") == "meanwhile"


@on_asyncio
async def test_a_lock_is_given_back_by_its_holder_alone(model: Model, made: Made) -> None:
    async with made(serializer=StringSerializer()) as cache:
        lock, other = RedLock(cache, "key", 20), RedLock(cache, "key", 0.1)
        async with lock:
            assert await cache.get("key-lock") == lock._value
            await other._release()
            assert await cache.exists("key-lock")
            async with other:
                assert await cache.get("key-lock") == lock._value
        assert not await cache.exists("key-lock")


@on_asyncio
async def test_without_its_cache_a_program_goes_on(model: Model) -> None:
    made: list[int] = []

    @cached(cache=PinyonCache, servers="127.0.0.1:1", on_failure="miss")
    async def one() -> int:
        made.append(1)
        return 1

    assert [await one(), await one()] == [1, 1]
    assert made == [1, 1]
    async with PinyonCache("127.0.0.1:1", on_failure="miss") as cache:
        assert await cache.set("key", 1) is False
        assert await cache.multi_set([("key", 1)]) is True
        assert await cache.multi_get(["key"]) == [None]
        assert await cache.increment("key") == -1
    async with PinyonCache("127.0.0.1:1") as cache:
        with pytest.raises(pinyon.Error):
            await cache.get("key")


@on_asyncio
async def test_a_wait_ends(model: Model, own_server: Memcached) -> None:
    own_server.pause()
    async with PinyonCache(own_server.address, timeout=0.2) as cache:
        with pytest.raises(TimeoutError) as raised:
            await cache.get("key")
        assert isinstance(raised.value, pinyon.Timeout)
    async with PinyonCache(own_server.address, timeout=20, connect_timeout=20) as cache:
        assert cache.timeout is None, "two deadlines, of which aiocache's costs a task"
        with pytest.raises(asyncio.TimeoutError):
            await cache.get("key", timeout=0.1)


@on_asyncio
async def test_cached_makes_a_value_that_cannot_be_read_anew(model: Model, server: Memcached, made: Made) -> None:
    cache = made()
    await cache.client.set("key", b"no JSON")
    calls = []

    @cached(cache=PinyonCache, servers=server.address, key_builder=lambda *_, **__: "key")
    async def value() -> str:
        calls.append(1)
        return "made"

    assert [await value(), await value()] == ["made", "made"]
    assert len(calls) == 1


@on_asyncio
async def test_clear_empties_the_namespace_of_a_clearable_cache(
    model: Model, server: Memcached, client: pinyon.Client, made: Made
) -> None:
    client.set("other", 1)
    async with made(namespace="site:", clearable=True) as cache:
        for arguments in ({}, {"namespace": "site:"}):
            await cache.set("key", 1)
            assert await cache.clear(**arguments) is True
            assert await cache.get("key") is None
        with pytest.raises(ValueError, match="cannot clear a namespace"):
            await cache.clear(namespace="other:")
    assert client.get("other") == 1
