"""Loading values runs the user's code. It happens once the operation no longer has its connection."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gevent
import pytest
from gevent.event import Event as GreenletEvent
from models import Asyncio, Gevent, Model, every_model, on_asyncio
from servers import Memcached
from waiting import SOON

import pinyon
import pinyon.gevent
from pinyon.serializers import Pickle

Connect = Callable[..., Any]
KEYS = [f"key{number}" for number in range(50)]
PATIENT: dict[str, Any] = {"timeout": 20, "connect_timeout": 20}


class Calling:
    """Values are bytes; ``call`` makes something of them when they are loaded."""

    call: Callable[[bytes], Any] = staticmethod(bytes)

    def dump(self, value: bytes) -> tuple[bytes, int]:
        return value, 7

    def load(self, data: bytes, flags: int) -> Any:
        return self.call(data)


@pytest.mark.parametrize("size", [1, 100_000])
@every_model
async def test_loading_may_use_the_client(model: Model, server: Memcached, connect: Connect, size: int) -> None:
    await connect(server, serializer="raw").set("inner", b"inner value")
    inner = connect(server, serializer="raw", max_connections=1)
    serializer = Calling()
    cache = connect(server, serializer=serializer, max_connections=1)
    await cache.set_many(dict.fromkeys(KEYS, b"x" * size))
    # In an event loop, loading cannot wait, but it can begin: the future is awaited here.
    ask = (cache if isinstance(model, Asyncio) else cache.wrapped).meta

    async def loaded(value: Any) -> Any:
        return (await value).size if isinstance(model, Asyncio) else value.size

    serializer.call = lambda data: ask("key0")
    assert await loaded(await cache.get("key1")) == size
    assert await loaded((await cache.gets("key1"))[0]) == size
    assert await loaded((await cache.get_with_ttl("key1"))[0]) == size
    assert await loaded(await cache.get_or_set("key1", lambda: b"", 60)) == size
    found = await cache.get_many(KEYS)
    assert [await loaded(found[key]) for key in KEYS] == [size] * len(KEYS)
    assert await inner.get("inner") == b"inner value"


class Nested:
    """Reads another value when it is unpickled."""

    client: Any = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.inner = self.client.get("inner")


@pytest.mark.parametrize("kind", [pinyon.Client, pinyon.gevent.Client])
def test_unpickling_may_use_the_client(server: Memcached, kind: type[pinyon.Client]) -> None:
    with kind(server.address, serializer="pickle", max_connections=1, **PATIENT) as client:
        Nested.client = client
        client.set("inner", {1, 2})
        nested = Nested()
        nested.state = 1
        client.set_many(dict.fromkeys(KEYS, nested))
        assert [value.inner for value in client.get_many(KEYS).values()] == [{1, 2}] * len(KEYS)
        assert client.get(KEYS[0]).inner == {1, 2}


def test_a_failure_of_the_client_while_a_value_is_unpickled_is_raised_as_it_is(server: Memcached) -> None:
    with pinyon.Client(server.address, serializer="pickle", on_unreadable="miss", **PATIENT) as client:
        nested = Nested()
        nested.state = 1
        client.set("nested", nested)
        Nested.client = pinyon.Client(server.address)
        Nested.client.close()
        with pytest.raises(pinyon.Closed):
            client.get("nested")
        assert client.get_or_set("other", lambda: 1, 60) == 1
        with pytest.raises(pinyon.Closed):
            client.get_or_set("nested", lambda: 1, 60)


def test_a_load_that_takes_its_time_keeps_no_connection_from_other_threads(server: Memcached) -> None:
    loading, go_on = threading.Event(), threading.Event()

    def load(data: bytes) -> bytes:
        if data == b"slow":
            loading.set()
            assert go_on.wait(SOON)
        return data

    serializer = Calling()
    serializer.call = load
    with pinyon.Client(server.address, serializer=serializer, max_connections=1, **PATIENT) as client:
        client.set_many({"slow": b"slow", "quick": b"quick"})
        with ThreadPoolExecutor() as pool:
            slow = pool.submit(client.get_many, ["slow", "quick"])
            assert loading.wait(SOON)
            assert client.get("quick") == b"quick"
            go_on.set()
            assert slow.result(SOON) == {"slow": b"slow", "quick": b"quick"}


def test_a_load_may_wait_for_another_greenlet() -> None:
    def scenario() -> None:
        waits = GreenletEvent()
        serializer = Calling()
        with Memcached() as server, pinyon.gevent.Client(server.address, serializer=serializer, **PATIENT) as client:
            client.set_many({"slow": b"slow", "quick": b"quick"})
            serializer.call = lambda data: (waits.wait(SOON) if data == b"slow" else None) or data
            slow = gevent.spawn(client.get, "slow")
            gevent.sleep(0)
            assert client.get("quick") == b"quick"
            waits.set()
            assert slow.get(timeout=SOON) is True

    Gevent().run(_blocking(scenario))


async def _blocking(scenario: Callable[[], None]) -> None:
    scenario()


@on_asyncio
async def test_each_task_resumes_once_its_own_value_is_loaded(
    model: Model, server: Memcached, connect: Connect
) -> None:
    happened: list[str] = []
    serializer = Calling()
    serializer.call = lambda data: happened.append(f"load {data.decode()}") or data
    cache = connect(server, serializer=serializer)
    await cache.set_many({"a": b"a", "b": b"b"})

    async def get(key: str) -> None:
        await cache.get(key)
        happened.append(f"resume {key}")

    tasks = [model.spawn(get(key)) for key in "ab"]
    for task in tasks:
        await model.join(task)
    assert happened == ["load a", "resume a", "load b", "resume b"]


@on_asyncio
async def test_a_load_that_raises_stop_iteration_does_not_hang(
    model: Model, server: Memcached, connect: Connect
) -> None:
    serializer = Calling()
    serializer.call = lambda data: next(iter(()))
    cache = connect(server, serializer=serializer)
    await cache.set("key", b"value")
    with pytest.raises(RuntimeError, match="StopIteration"):
        await cache.get("key")


def test_pickle_itself_reads_what_it_wrote() -> None:
    data, flags = Pickle().dump({1, 2})
    assert (Pickle().load(data, flags), pickle.loads(data)) == ({1, 2}, {1, 2})
