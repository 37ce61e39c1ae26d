"""What the methods of ``pinyon.aio`` return is taken wherever asyncio takes coroutines, and so are the methods."""

from __future__ import annotations

import asyncio
import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine
from typing import Any
from unittest import mock

import pytest
from logs import forgotten, warned
from models import Model, on_asyncio
from processes import what_it_prints
from servers import Memcached, Redis

import pinyon
import pinyon.aio

Connect = Callable[..., Any]
PATIENT = {"timeout": 60, "connect_timeout": 60}


async def in_a_task(reply: Any) -> Any:
    return await asyncio.create_task(reply)


async def in_a_task_group(reply: Any) -> Any:
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(reply)
    except Exception as errors:
        raise errors.exceptions[0] from None  # type: ignore[attr-defined]
    return task.result()


async def in_an_eager_task(reply: Any) -> Any:
    return await asyncio.eager_task_factory(asyncio.get_running_loop(), reply)


async def by_gather(reply: Any) -> Any:
    (value,) = await asyncio.gather(reply)
    return value


async def by_wait_for(reply: Any) -> Any:
    return await asyncio.wait_for(reply, 60)


async def by_shield(reply: Any) -> Any:
    return await asyncio.shield(reply)


async def by_as_completed(reply: Any) -> Any:
    for first in asyncio.as_completed([reply]):
        return await first


async def by_wait(reply: Any) -> Any:
    done, _ = await asyncio.wait([asyncio.create_task(reply)])
    return done.pop().result()


async def in_a_variable(reply: Any) -> Any:
    await asyncio.sleep(0)
    return await reply


WAYS = [in_a_task, by_gather, by_wait_for, by_shield, by_as_completed, by_wait, in_a_variable]
WAYS += [in_a_task_group] if sys.version_info >= (3, 11) else []
WAYS += [in_an_eager_task] if sys.version_info >= (3, 12) else []


@pytest.mark.parametrize("way", WAYS)
@on_asyncio
async def test_every_way_to_wait_for_a_reply(
    model: Model, way: Callable[[Any], Any], server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    assert await way(cache.set("key", "value")) is True
    assert await way(cache.get("key")) == "value"
    value, token = await way(cache.gets("key"))
    assert (value, token > 0) == ("value", True)
    with pytest.raises(pinyon.ServerError, match="non-numeric"):
        await way(cache.incr("key"))


@on_asyncio
async def test_a_reply_is_a_future_and_a_coroutine(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    reply = cache.get("key", "default")
    assert isinstance(reply, pinyon.aio.Reply)
    assert isinstance(reply, asyncio.Future)
    assert isinstance(reply, Coroutine)
    assert asyncio.ensure_future(reply) is reply
    assert await reply == "default"
    assert reply.done()
    assert reply.result() == "default"


@on_asyncio
async def test_gather_makes_no_task_for_each_reply(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    replies = [cache.get("key") for _ in range(10)]
    tasks = len(asyncio.all_tasks())
    gathering = asyncio.gather(*replies)
    assert len(asyncio.all_tasks()) == tasks
    assert await gathering == [None] * 10


@on_asyncio
async def test_a_task_and_a_coroutine_wait_for_one_reply(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    await cache.set("key", "value")
    reply = cache.get("key")
    task = asyncio.create_task(reply)
    assert (await reply, await task) == ("value", "value")
    reply = cache.get("key")
    task = asyncio.create_task(reply)
    await asyncio.sleep(0)
    assert (await reply, await task) == ("value", "value")
    assert await asyncio.create_task(reply) == "value"


@on_asyncio
async def test_asyncio_wait_wants_tasks(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    reply = cache.get("key")
    if sys.version_info >= (3, 11):
        with pytest.raises(TypeError, match="use tasks explicitly"):
            await asyncio.wait([reply])
    assert await reply is None


@pytest.mark.parametrize("turns", [0, 1, 2])
@on_asyncio
async def test_a_cancelled_task_abandons_its_reply(
    model: Model, turns: int, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    await cache.set("key", "value")
    own_server.pause()
    reply, another = cache.get("key"), cache.get("key")
    task = asyncio.create_task(reply)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reply.cancelled()
    own_server.resume()
    assert await another == "value"


@on_asyncio
async def test_a_reply_in_the_hands_of_others(model: Model, own_server: Memcached, connect: Connect) -> None:
    cache = connect(own_server)
    await cache.set("key", "value")
    own_server.pause()
    given_up, closed = cache.get("key"), cache.get("key")
    assert given_up.send(None) is given_up
    with pytest.raises(LookupError, match="why"):
        given_up.throw(LookupError("why"))
    closed.close()
    assert given_up.cancelled()
    assert closed.cancelled()
    own_server.resume()
    reply, failed = cache.get("key"), cache.incr("key")
    await asyncio.gather(reply, failed, return_exceptions=True)
    with pytest.raises(StopIteration) as stop:
        reply.send(None)
    assert stop.value.value == "value"
    failed.close()
    assert reply.result() == "value"


@on_asyncio
async def test_what_no_task_waits_for_is_reported_once(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    with warned() as caught:
        cache.get("forgotten")
        task = asyncio.create_task(cache.get("key"))
        await cache.get("key")
        await task
    assert forgotten(caught) == ["'pinyon.aio.Client.get' was never awaited"]


# Methods


def test_methods_pass_for_coroutine_functions(server: Memcached) -> None:
    cache = pinyon.aio.Client(server.address)
    waits = {
        name
        for name in dir(cache)
        if not name.startswith("_")
        and callable(getattr(cache, name))
        and not asyncio.iscoroutinefunction(getattr(cache, name))
    }
    waiting_for_nothing = {"cached", "close", "describe", "iter_many", "metrics", "near_metrics", "quiet"}
    assert waits == waiting_for_nothing | {"servers_of", "using"}
    for of in (pinyon.aio.Held, pinyon.aio.Lock, pinyon.aio.Locks, pinyon.aio.MigratingClient):
        for name in ("release", "extend", "notify", "acquire", "force_release", "execute", "get", "set", "get_or_set"):
            method = getattr(of, name, None)
            assert method is None or asyncio.iscoroutinefunction(method), f"{of.__name__}.{name}"
    assert not asyncio.iscoroutinefunction(pinyon.Client.get)
    if sys.version_info >= (3, 12):
        assert inspect.iscoroutinefunction(cache.get)


def test_methods_look_like_those_of_the_blocking_client(server: Memcached) -> None:
    cache, blocking = pinyon.aio.Client(server.address), pinyon.Client(server.address)
    for name in ("get", "set_many", "incr", "version"):
        method, other = getattr(cache, name), getattr(blocking, name)
        assert inspect.signature(method) == inspect.signature(other)
        assert method.__doc__ == other.__doc__
        assert (method.__module__, method.__name__) == ("pinyon.aio", name)
        assert method.__qualname__ == f"Client.{name}"
        assert method.__self__ is cache
        assert method == getattr(cache, name)
    assert "Client.get" in repr(pinyon.aio.Client.get)
    with pytest.raises(TypeError, match="key"):
        cache.get()
    with pytest.raises(TypeError):
        pinyon.aio.Client.get(object(), "key")  # type: ignore[arg-type]


def test_a_subclass_extends_a_method(server: Memcached) -> None:
    class Cache(pinyon.aio.Client):
        async def get(self, key: Any, default: Any = None) -> Any:  # type: ignore[override]
            return "own " + await super().get(key, default)

    assert asyncio.run(Cache(server.address, **PATIENT).get("key", default="value")) == "own value"


@pytest.mark.parametrize("make", [mock.create_autospec, lambda spec, instance: mock.AsyncMock(spec=spec)])
def test_mocks_are_awaited(server: Memcached, make: Callable[..., Any]) -> None:
    for spec in (pinyon.aio.Client, pinyon.aio.Client(server.address)):
        mocked = make(spec, instance=True)
        mocked.get.return_value = "mocked"
        mocked.get_or_set.return_value = "made"

        async def use(mocked: Any = mocked) -> tuple[Any, Any]:
            return await mocked.get("key"), await mocked.get_or_set("key", list, 1)

        assert asyncio.run(use()) == ("mocked", "made")
        mocked.get.assert_awaited_once_with("key")


# Frameworks


async def by_anyio(method: Any, *arguments: Any) -> None:
    import anyio

    async with anyio.create_task_group() as group:
        group.start_soon(method, *arguments)


async def by_starlette(method: Any, *arguments: Any) -> None:
    from starlette.background import BackgroundTask

    await BackgroundTask(method, *arguments)()


async def by_fastapi(method: Any, *arguments: Any) -> None:
    import fastapi

    application = fastapi.FastAPI()

    async def page(background: Any) -> None:
        background.add_task(method, *arguments)

    page.__annotations__["background"] = fastapi.BackgroundTasks
    application.get("/")(page)
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200

    await application(scope, receive, send)


@pytest.mark.parametrize("way", [by_anyio, by_starlette, by_fastapi])
@on_asyncio
async def test_frameworks_call_methods_in_the_loop(
    model: Model, way: Callable[..., Any], server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    await way(cache.set, "key", "value")
    assert await cache.get("key") == "value"


@on_asyncio
async def test_frameworks_call_methods_of_locks(model: Model, redis: Redis) -> None:
    locks = model.locks(redis.url)
    lock = locks.lock("name")
    await by_anyio(lock.acquire)
    task = asyncio.create_task(locks.is_locked("name"))
    assert await task
    held = await locks.try_lock("another")
    await by_starlette(held.extend, 5)
    await by_starlette(held.release)
    await asyncio.create_task(locks.force_release("name"))
    assert await asyncio.create_task(locks.execute("PING")) in ("PONG", b"PONG")
    assert not await locks.is_locked("name", "another")
    locks.close()


# Outside of a loop


def test_a_call_outside_of_a_loop_returns_a_coroutine(server: Memcached) -> None:
    from asgiref.sync import async_to_sync

    cache = pinyon.aio.Client(server.address, **PATIENT)
    assert asyncio.run(cache.set("key", "value")) is True
    assert asyncio.run(cache.get_many(key for key in ("key", "none"))) == {"key": "value"}
    assert asyncio.run(cache.delete_many(key for key in ("none", "key"))) == 1
    assert asyncio.run(cache.get(key="key", default="default")) == "default"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert async_to_sync(cache.get)("key", default="default") == "default"
    with pytest.raises(pinyon.InvalidKey):
        cache.get("not a key")
    with pytest.warns(RuntimeWarning, match=r"coroutine 'Client\.get' was never awaited"):
        cache.get("key")
    cache.close()


COLLECTING = """
import gc
from pinyon import _native
gc.set_threshold(1)
kept = [{} for _ in range(100)]
for _ in range(100):
    kept.append({})
    kept.append(_native.AwaitedMethod(_native.Client.get, TypeError, print))
print("made")
"""


def test_garbage_is_collected_while_a_method_is_made() -> None:
    assert what_it_prints(COLLECTING) == "made"


@on_asyncio
async def test_a_thread_hands_a_call_to_the_loop(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    await cache.set("key", "value")
    loop = asyncio.get_running_loop()

    def get() -> Any:
        return asyncio.run_coroutine_threadsafe(cache.get("key"), loop).result(60)

    assert await loop.run_in_executor(None, get) == "value"


IN_TRIO = """
import sys, pickle, trio, pinyon.aio
cache = pinyon.aio.Client(sys.argv[1], timeout=60)
async def main():
    try:
        await cache.get("key")
    except pinyon.UsageError as error:
        print(type(pickle.loads(pickle.dumps(error))), error)
trio.run(main)
"""


def test_trio_is_told_what_to_do(server: Memcached) -> None:
    said = what_it_prints(IN_TRIO, server.address)
    assert said.startswith("<class 'pinyon.errors.UsageError'> pinyon.aio runs on asyncio's event loops")
    assert "trio.to_thread.run_sync" in said


IN_EVENTLET = """
import sys, warnings
import eventlet
eventlet.monkey_patch()
import pinyon
from eventlet import tpool
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    cache = pinyon.Client(sys.argv[1], timeout=60)
    assert cache.set("key", "value")
print(*(each.message for each in warned if issubclass(each.category, RuntimeWarning)))
print(tpool.execute(cache.get, "key"))
"""


def test_eventlet_is_told_what_to_do(server: Memcached) -> None:
    said, value = what_it_prints(IN_EVENTLET, server.address).splitlines()
    assert "pinyon.Client does not cooperate with it" in said
    assert "eventlet.tpool.execute" in said
    assert value == "value"


# Loops that run inside of themselves

NESTED = """
import asyncio, sys, threading
import nest_asyncio
import pinyon.aio

async def other(cache, key):
    for n in range(3):
        await cache.set(key, n)
        assert await cache.get(key) == n
    return key

async def main(servers, patch_at):
    cache = pinyon.aio.Client(servers, timeout=100, connect_timeout=100)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: print(context))
    others = [asyncio.create_task(other(cache, f"other:{n}")) for n in range(5)]
    await cache.set("key", "value")
    if patch_at == "resumed":
        nest_asyncio.apply()
    print(loop.run_until_complete(cache.get("key")))
    print(*loop.run_until_complete(asyncio.gather(*others)))
    async def nested():
        await cache.set("key", "nested")
        return loop.run_until_complete(cache.get("key"))
    print(loop.run_until_complete(nested()))
    await cache.get("key")
    print(loop.run_until_complete(asyncio.create_task(cache.get("key"))))
    print(await cache.get("key"))

servers, patch_at = sys.argv[1:]
if patch_at == "imported":
    nest_asyncio.apply()
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
if patch_at == "made":
    nest_asyncio.apply(loop)
loop.run_until_complete(main(servers, patch_at))
"""


@pytest.mark.parametrize("patch_at", ["imported", "made", "resumed"])
def test_a_resumed_task_runs_the_loop(patch_at: str, server: Memcached) -> None:
    if patch_at == "resumed" and sys.version_info >= (3, 14):
        pytest.skip("a task in which nest_asyncio is applied keeps other tasks out of its loop, whatever they wait for")
    said = what_it_prints(NESTED, server.address, patch_at).splitlines()
    assert said == ["value", "other:0 other:1 other:2 other:3 other:4", "nested", "nested", "nested"]
