"""Several event loops, loops that end, forked children, patched processes, and what it all costs."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gevent
import pytest
from models import COOPERATIVE, Model, names
from servers import Memcached

import pinyon
import pinyon.aio
import pinyon.gevent

cooperative = pytest.mark.parametrize("model", COOPERATIVE, ids=names)
on_asyncio = pytest.mark.parametrize("model", COOPERATIVE[1:], ids=names)


def in_a_process_of_its_own(program: str, *arguments: str) -> str:
    """What the program prints."""
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@cooperative
def test_two_loops_in_two_threads_share_a_client(model: Model, own_server: Memcached) -> None:
    cache = model.client(own_server.address, timeout=10)
    errors: list[BaseException] = []
    barrier = threading.Barrier(2)

    async def scenario(number: int) -> None:
        for turn in range(20):
            keys = [f"{number}:{turn}:{n}" for n in range(50)]
            assert await model.gather(cache.set(key, key) for key in keys) == [True] * 50
            assert await model.gather(cache.get(key) for key in keys) == keys
            assert await cache.get_many(keys) == {key: key for key in keys}
            if turn == 5:
                barrier.wait(10)
                assert number or own_server.connections() == 2
                barrier.wait(10)

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
        thread.join(20)
    assert not errors
    cache.close()
    assert own_server.has_connections(0)


@on_asyncio
def test_a_client_is_used_again_after_its_loop_was_closed(model: Model, own_server: Memcached) -> None:
    cache = model.client(own_server.address, timeout=10)

    async def scenario(number: int) -> None:
        assert await cache.set(f"key:{number}", number)
        assert await cache.get(f"key:{number}") == number

    for number in range(5):
        model.run(scenario(number))
    assert own_server.has_connections(1)
    cache.close()
    assert own_server.has_connections(0)


@on_asyncio
def test_a_loop_is_closed_with_work_in_flight(model: Model, own_server: Memcached) -> None:
    cache = model.client(own_server.address, timeout=10)

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
    assert own_server.has_connections(1)
    cache.close()


@cooperative
def test_a_closed_client_fails_what_waits_and_what_comes(model: Model, own_server: Memcached) -> None:
    async def scenario() -> None:
        cache = model.client(own_server.address, timeout=10)
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
            with pytest.raises(pinyon.Closed):
                await getattr(cache, method)(*arguments)
        cache.close()
        assert own_server.has_connections(0)

    model.run(scenario())


def test_outside_of_a_loop_there_is_a_clear_error(server: Memcached) -> None:
    cache = pinyon.aio.Client(server.address)
    for attempt in (lambda: cache.get("key"), lambda: cache.get_many(["a"]), cache.version):
        with pytest.raises(pinyon.UsageError, match="inside a running event loop"):
            attempt()
    cache.close()


@cooperative
def test_names_and_unix_sockets(model: Model, server: Memcached, unix_memcached: Memcached) -> None:
    async def scenario() -> None:
        for address in (f"localhost:{server.port}", unix_memcached.address):
            cache = model.client(address, timeout=5)
            assert await model.gather(cache.set(f"key:{n}", n) for n in range(100)) == [True] * 100
            assert await model.gather(cache.get(f"key:{n}") for n in range(100)) == list(range(100))
            cache.close()
        nowhere = model.client("no-such-host.invalid:11211", timeout=5)
        for outcome in await model.gather(nowhere.get("key") for _ in range(5)):
            assert isinstance(outcome, (pinyon.ConnectError, pinyon.ServerDown, pinyon.Timeout)), repr(outcome)
        nowhere.close()

    model.run(scenario())


def test_closing_from_another_thread_than_the_loops(own_server: Memcached) -> None:
    """The loop's own thread is where its tasks are resumed."""

    async def scenario() -> str:
        cache = pinyon.aio.Client(own_server.address, timeout=2)
        await cache.set("key", "value")
        own_server.pause()
        waiting = asyncio.ensure_future(cache.get("key"))
        await asyncio.sleep(0.01)
        await asyncio.get_running_loop().run_in_executor(None, cache.close)
        with pytest.raises((pinyon.Closed, pinyon.ConnectionLost)):
            await asyncio.wait_for(waiting, 1)
        return "done"

    try:
        assert asyncio.run(scenario()) == "done"
    finally:
        own_server.resume()


FORK_IN_A_GREENLET = """
import os, sys, gevent, gevent.os, pinyon.gevent
cache = pinyon.gevent.Client(sys.argv[1], timeout=5)
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
gevent.joinall(others + forking, timeout=15, raise_error=True)
assert all(greenlet.value for greenlet in others + forking)
print("fine")
"""

FORK_IN_A_TASK = """
import asyncio, os, sys, pinyon.aio
cache = pinyon.aio.Client(sys.argv[1], timeout=2)

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
    assert in_a_process_of_its_own(program, own_server.address) == "fine"
    asking, parent, child = 1, 1, 1
    assert own_server.statistic("total_connections") == before + asking + parent + child


PATCHED = """
import sys
{first}
import gevent
ticks = 0
def tick():
    global ticks
    while True:
        gevent.sleep(0.002)
        ticks += 1
gevent.spawn(tick)
cache.set("key", "value")
greenlets = [gevent.spawn(cache.get, "key") for _ in range(50)]
gevent.joinall(greenlets, raise_error=True)
assert [greenlet.value for greenlet in greenlets] == ["value"] * 50
with cache.quiet() as batch:
    batch.set("quiet", 1)
assert cache.get_many(["quiet", "key"]) == {{"quiet": 1, "key": "value"}}
stalled = pinyon.Client(sys.argv[2], timeout=0.3)
ticks = 0
try:
    stalled.get("key")
except pinyon.Timeout:
    assert ticks > 5, ticks
    import pinyon.gevent
    assert isinstance(cache, pinyon.gevent.Client) and isinstance(cache, pinyon.Client)
    cache.close()
    print("cooperates")
"""

ORDERS = {
    "patched first": "import gevent.monkey; gevent.monkey.patch_all(); import pinyon; {make}",
    "imported first": "import pinyon, gevent.monkey; gevent.monkey.patch_all(); {make}",
    "made first": "import pinyon; {make}; import gevent.monkey; gevent.monkey.patch_all()",
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_blocking_client_cooperates_in_a_patched_process(
    order: str, server: Memcached, own_server: Memcached
) -> None:
    own_server.pause()
    program = PATCHED.format(first=ORDERS[order].format(make="cache = pinyon.Client(sys.argv[1])"))
    assert in_a_process_of_its_own(program, server.address, own_server.address) == "cooperates"


def test_where_nothing_is_patched_the_client_blocks(server: Memcached) -> None:
    assert gevent.get_hub() is not None
    with pinyon.Client(server.address) as cache:
        assert cache.set("key", "value")
        assert type(cache) is pinyon.Client


WORK_OF_GREENLETS = """
import sys, gevent, pinyon.gevent
cache = pinyon.gevent.Client(sys.argv[1], timeout=20)
def work():
    for _ in range(100):
        cache.get("key")
gevent.joinall([gevent.spawn(work) for _ in range(64)], raise_error=True)
"""

WORK_OF_TASKS = """
import sys, asyncio, uvloop, pinyon.aio
async def main():
    cache = pinyon.aio.Client(sys.argv[1], timeout=20)
    async def work():
        for _ in range(100):
            await cache.get("key")
    await asyncio.gather(*(work() for _ in range(64)))
loop = {module}.new_event_loop()
loop.run_until_complete(main())
"""

COSTS = {
    "gevent": WORK_OF_GREENLETS,
    "asyncio": WORK_OF_TASKS.format(module="asyncio"),
    "uvloop": WORK_OF_TASKS.format(module="uvloop"),
}


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace counts the system calls")
@pytest.mark.parametrize("name", COSTS)
def test_64_coroutines_share_their_system_calls(name: str, server: Memcached, tmp_path: Path) -> None:
    calls = "sendto,sendmsg,write,writev,recvfrom,recvmsg,read,readv,epoll_wait,epoll_pwait,epoll_ctl,select,poll"
    told = tmp_path / "strace"
    command = ["strace", "-f", "-c", "-o", str(told), "-e", f"trace={calls}", sys.executable, "-c", COSTS[name]]
    subprocess.run([*command, server.address], check=True, timeout=30)
    starting = tmp_path / "starting"
    command[4] = str(starting)
    command[-1] = COSTS[name].replace("range(100)", "range(1)")
    subprocess.run([*command, server.address], check=True, timeout=30)

    def total(path: Path) -> int:
        found: Any = re.search(r"^100.00 +\S+ +\S+ +(\d+)", path.read_text(), re.MULTILINE)
        return int(found[1])

    assert (total(told) - total(starting)) / (99 * 64) < 0.3
