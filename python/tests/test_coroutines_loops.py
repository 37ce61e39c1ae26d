"""Several event loops, loops that end, clients that close, names, and forked children."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import gevent
import pytest
from models import Model, cooperative, on_asyncio
from processes import what_it_prints
from servers import Memcached

import pinyon
import pinyon._aio_driver
import pinyon.aio
import pinyon.gevent

Connect = Callable[..., Any]


@cooperative
def test_two_loops_in_two_threads_share_a_client(model: Model, own_server: Memcached) -> None:
    cache = model.client(own_server.address, timeout=10, connect_timeout=10)
    errors: list[BaseException] = []
    barrier = threading.Barrier(2)

    async def scenario(number: int) -> None:
        for turn in range(20):
            keys = [f"{number}:{turn}:{n}" for n in range(50)]
            assert await model.gather(cache.set(key, key) for key in keys) == [True] * 50
            assert await model.gather(cache.get(key) for key in keys) == keys
            assert await cache.get_many(keys) == {key: key for key in keys}
            if turn == 5:
                barrier.wait(60)
                assert number or own_server.connections() == 2
                barrier.wait(60)

    def run(number: int) -> None:
        try:
            model.run(scenario(number))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
    cache.close()
    assert own_server.has_connections(0)


@cooperative
async def test_the_last_owner_of_a_client_that_is_dropped_takes_its_connections_along(
    model: Model, own_server: Memcached
) -> None:
    cache = model.client(own_server.address, timeout=20, connect_timeout=20)
    await cache.set("key", "value")
    view = cache.using(on_failure="miss")
    del cache
    gc.collect()
    assert await view.get("key") == "value"
    assert own_server.connections() == 1
    under_way = view.get("key")
    del view
    assert await under_way == "value"
    del under_way
    await model.until(lambda: own_server.connections() == 0)


@on_asyncio
def test_a_client_is_used_again_after_its_loop_was_closed(model: Model, own_server: Memcached) -> None:
    cache = model.client(own_server.address, timeout=10, connect_timeout=10)

    async def scenario(number: int) -> None:
        assert await cache.set(f"key:{number}", number)
        assert await cache.get(f"key:{number}") == number

    for number in range(5):
        model.run(scenario(number))
        assert own_server.has_connections(0), "a loop that is closed takes its connections along"
    cache.close()


@pytest.mark.filterwarnings("ignore:.*never awaited")
@on_asyncio
def test_a_loop_is_closed_with_work_in_flight(model: Model, own_server: Memcached) -> None:
    cache = model.client(own_server.address, timeout=10, connect_timeout=10)

    async def leave() -> None:
        await cache.set("key", "value")
        own_server.pause()
        for _ in range(100):
            cache.get("key")
        await asyncio.sleep(0.01)

    async def scenario() -> None:
        assert await model.gather(cache.get("key") for _ in range(10)) == ["value"] * 10

    for _ in range(3):
        model.run(leave())
        own_server.resume()
        model.run(scenario())
        assert own_server.has_connections(0)
    cache.close()


@pytest.mark.filterwarnings("ignore:.*never awaited")
@on_asyncio
def test_a_client_is_closed_after_its_loop(model: Model, own_server: Memcached) -> None:
    cache = model.client(own_server.address, timeout=10, connect_timeout=10)

    async def leave() -> None:
        await cache.set("key", "value")
        own_server.pause()
        cache.get("key")
        await asyncio.sleep(0.01)

    model.run(leave())
    own_server.resume()
    cache.close()
    assert own_server.has_connections(0)


def test_a_hub_is_destroyed_with_work_in_flight(own_server: Memcached) -> None:
    cache = pinyon.gevent.Client(own_server.address, timeout=10, connect_timeout=10)

    def leave() -> None:
        for _ in range(2):
            cache.set("key", "value")
            own_server.pause()
            for _ in range(100):
                gevent.spawn(cache.get, "key")
            gevent.sleep(0.01)
            gevent.get_hub().destroy(destroy_loop=True)
            own_server.resume()

    for _ in range(3):
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join(120)
        assert cache.get("key") == "value"
    # The connections of the last hub are closed when another hub uses the client.
    assert own_server.has_connections(2)
    cache.close()
    assert own_server.has_connections(0)


@cooperative
async def test_names_and_unix_sockets(
    model: Model, server: Memcached, unix_memcached: Memcached, connect: Connect
) -> None:
    """Resolvers read 127.1 without asking any server, although it is not an address in our sense."""
    for address in (f"127.1:{server.port}", f"localhost:{server.port}", unix_memcached.address):
        cache = connect(address)
        assert await model.gather(cache.set(f"key:{n}", n) for n in range(100)) == [True] * 100
        assert await model.gather(cache.get(f"key:{n}") for n in range(100)) == list(range(100))
    nowhere = connect("no-such-host.invalid:11211", timeout=5)
    for outcome in await model.gather(nowhere.get("key") for _ in range(5)):
        assert isinstance(outcome, (pinyon.ConnectError, pinyon.ServerDown, pinyon.Timeout)), repr(outcome)


@cooperative
async def test_while_a_name_is_not_resolved_every_request_has_its_deadline(
    model: Model, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for driver in (pinyon._aio_driver.Driver, pinyon._gevent_driver.Driver):
        monkeypatch.setattr(driver, "resolve", lambda *_: None)
    cache = connect("server.invalid", timeout=0.2)
    timeouts = 0
    while timeouts < 3:
        with pytest.raises((pinyon.Timeout, pinyon.ServerDown)) as raised:
            await model.within(60, cache.get("key"))
        timeouts += isinstance(raised.value, pinyon.Timeout)
        await model.sleep(0.05)


@on_asyncio
async def test_a_name_that_no_resolver_takes_fails_at_once(model: Model, connect: Connect) -> None:
    cache = connect("long" * 30 + ".invalid", timeout=20)
    with pytest.raises(pinyon.ConnectError, match="its name does not resolve"):
        await model.within(60, cache.get("key"))


@on_asyncio
async def test_a_name_is_asked_for_again_when_all_tasks_were_cancelled(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(f"127.1:{server.port}", timeout=20)
    waiting = cache.set("key", "value")
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    assert await asyncio.wait_for(waiting, 60) is True


def test_closing_from_another_thread_than_the_loops(own_server: Memcached) -> None:
    """Tasks are resumed in the loop's own thread."""

    async def scenario() -> str:
        cache = pinyon.aio.Client(own_server.address, timeout=100, connect_timeout=100)
        await cache.set("key", "value")
        own_server.pause()
        waiting = asyncio.ensure_future(cache.get("key"))
        await asyncio.sleep(0.01)
        await asyncio.get_running_loop().run_in_executor(None, cache.close)
        with pytest.raises((pinyon.Closed, pinyon.ConnectionLost)):
            await asyncio.wait_for(waiting, 60)
        return "done"

    try:
        assert asyncio.run(scenario()) == "done"
    finally:
        own_server.resume()


FORK_IN_A_GREENLET = """
import os, sys, gevent, gevent.os, pinyon.gevent
cache = pinyon.gevent.Client(sys.argv[1], timeout=60, connect_timeout=60)
for n in range(50):
    cache.set(f"key:{n}", n)

def check():
    return [cache.get(f"key:{n}") for n in range(50)] == list(range(50))

def fork():
    child = gevent.os.fork_and_watch()
    if child == 0:
        status = 1
        try:
            greenlets = [gevent.spawn(check) for _ in range(10)]
            gevent.joinall(greenlets)
            status = 0 if all(greenlet.value for greenlet in greenlets) else 2
            cache.close()
        finally:
            os._exit(status)
    assert all(check() for _ in range(20))
    assert gevent.os.waitpid(child, 0)[1] == 0
    return check()

others = [gevent.spawn(check) for _ in range(10)]
forking = [gevent.spawn(fork)]
gevent.joinall(others + forking, timeout=100, raise_error=True)
assert all(greenlet.value for greenlet in others + forking)
print("fine")
"""

FORK_IN_A_TASK = """
import asyncio, os, sys, pinyon.aio
cache = pinyon.aio.Client(sys.argv[1], timeout=60, connect_timeout=60)

async def check():
    return await asyncio.gather(*(cache.get(f"key:{n}") for n in range(50))) == list(range(50))

async def main():
    await asyncio.gather(*(cache.set(f"key:{n}", n) for n in range(50)))
    waiting = asyncio.ensure_future(check())
    await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio._set_running_loop(None)
            asyncio.set_event_loop(None)
            status = 0 if asyncio.run(check()) else 2
            cache.close()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert await waiting
    assert await check()

asyncio.run(main())
print("fine")
"""


@pytest.mark.parametrize("program", [FORK_IN_A_GREENLET, FORK_IN_A_TASK], ids=["greenlet", "task"])
def test_a_forked_child_has_its_own_connections_and_the_parent_keeps_its(program: str, own_server: Memcached) -> None:
    before = own_server.statistic("total_connections")
    assert what_it_prints(program, own_server.address) == "fine"
    asking, parent, child = 1, 1, 1
    assert own_server.statistic("total_connections") == before + asking + parent + child
