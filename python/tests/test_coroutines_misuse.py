"""Wrong uses give errors."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from models import Model, cooperative, every_model, on_asyncio
from processes import what_it_prints
from servers import Memcached

import pinyon
import pinyon.aio

Connect = Callable[..., Any]
TESTS = str(Path(__file__).parent)


@cooperative
async def test_a_closed_client_fails_what_waits_and_what_comes(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    await cache.set("key", "value")
    own_server.pause()
    waiting = [model.spawn(cache.get("key")) for _ in range(5000)]
    await model.sleep(0.01)
    cache.close()
    for task in waiting:
        with pytest.raises((pinyon.Closed, pinyon.ConnectionLost), match="closed"):
            await model.join(task)
    own_server.resume()
    for method, arguments in (("get", "k"), ("set", "kv"), ("get_many", ["kl"]), ("stats", ""), ("version", "")):
        with pytest.raises(pinyon.Closed, match="closed"):
            await getattr(cache, method)(*arguments)
    with pytest.raises(pinyon.Error, match="closed"):
        async with cache.quiet() as batch:
            await batch.set("key", "value")
    cache.close()
    assert own_server.has_connections(0)


@on_asyncio
async def test_what_one_loop_began_is_not_awaited_in_another(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    assert await cache.set("key", "value")
    own_server.pause()
    begun = cache.get("key")

    async def await_it() -> Any:
        return await begun

    with pytest.raises(RuntimeError, match="attached to a different loop"):
        await asyncio.get_running_loop().run_in_executor(None, model.run, await_it())
    own_server.resume()
    assert await cache.get("key") == "value"


BATCH_OF_ANOTHER_LOOP = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import pinyon
from models import MODELS
model = next(each for each in MODELS if each.name == sys.argv[2])
cache = model.client(sys.argv[3], timeout=60, connect_timeout=60)
opened, used = threading.Event(), threading.Event()

async def open_it():
    global batch
    async with cache.quiet() as batch:
        for n in range(2000):
            await batch.set(f"own:{n}", n)
        opened.set()
        while not used.is_set():
            await model.sleep(0.01)
    assert await cache.get("own:1999") == 1999

async def use_it():
    try:
        for n in range(2000):
            await batch.set(f"strange:{n}", n)
    except pinyon.UsageError as error:
        print(error)

home = threading.Thread(target=lambda: model.run(open_it()), daemon=True)
home.start()
opened.wait()
model.run(use_it())
used.set()
home.join(60)
print("left" if not home.is_alive() else "waits forever")
"""


@cooperative
def test_a_batch_of_one_loop_is_not_used_in_another(model: Model, server: Memcached) -> None:
    said = what_it_prints(BATCH_OF_ANOTHER_LOOP, TESTS, model.name, server.address)
    assert "loop" in said or "hub" in said or "thread" in said
    assert said.splitlines()[-1] == "left"


@every_model
async def test_servers_that_fail_are_noted_in_a_dict(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    for method in (cache.get_many, cache.gets_many):
        with pytest.raises(pinyon.UnsupportedType, match=r"failed must be a dict.*, not list"):
            await method(["key"], failed=[])


def test_threads_have_no_connections_to_share(server: Memcached) -> None:
    with pytest.raises(pinyon.UsageError, match=r"pinyon\.aio\.Client; threads have max_connections"):
        pinyon.Client(server.address, connections=2)  # type: ignore[call-arg]


WITHOUT_GEVENT = """
import sys
sys.modules["gevent"] = None
import pinyon, pinyon.aio
with pinyon.Client(sys.argv[1], timeout=20, connect_timeout=20) as cache:
    assert cache.set("key", "value") and cache.get("key") == "value"
try:
    import pinyon.gevent
except ImportError as error:
    print(error)
"""


def test_without_gevent_all_else_works(server: Memcached) -> None:
    said = what_it_prints(WITHOUT_GEVENT, server.address)
    assert said == "pinyon.gevent needs gevent; install it with: pip install gevent"


@on_asyncio
async def test_a_lease_is_awaited_before_its_block(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    both = pinyon.aio.migrating(connect(server, namespace="old:"), connect(server, namespace="new:"))
    for client in (cache, both):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(TypeError, match=r"write `async with await client\.lease\(…\)`"):
                async with client.lease("key"):  # type: ignore[attr-defined]
                    pass
            with pytest.raises(TypeError, match=r"write `async with await client\.lease\(…\)`"), client.lease("key"):
                pass
        async with await client.lease("key") as lease:
            assert lease.state is pinyon.Outcome.WON
        task = asyncio.create_task(client.lease("key"))
        with pytest.raises(TypeError, match="is for coroutines: use it by `async with`"), await task:
            pass
        assert await task.result().give_back()
        asked = client.lease("key")
        assert asyncio.iscoroutine(asked)
        asked.close()


def test_a_lease_for_threads_has_a_block_for_threads(server: Memcached) -> None:
    async def use() -> None:
        with pinyon.Client(server.address, timeout=20, connect_timeout=20) as cache:
            async with cache.lease("key"):  # type: ignore[attr-defined]
                pass

    with pytest.raises(TypeError, match="blocks its thread: use it by `with`"):
        asyncio.run(use())
