"""While some coroutines wait, the others continue, and all share the cost of waiting."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import pytest
from models import Model, cooperative
from processes import what_it_prints
from servers import Memcached

import pinyon

Connect = Callable[..., Any]


@cooperative
async def test_others_go_on_while_some_wait_for_a_stalled_server(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    """One of the others lets the server continue."""
    cache = connect(own_server)
    await cache.set("key", "value")
    own_server.pause()

    async def tick() -> None:
        for _ in range(200):
            await model.sleep(0.001)
        own_server.resume()

    ticking = model.spawn(tick())
    assert await model.gather(cache.get("key") for _ in range(20)) == ["value"] * 20
    await model.join(ticking)


MEGABYTE = 1_000_000
SIZES = {"large values": 500_000, "small values": 5000}


#: How much a connection receives at once, unless it is the rest of a large value.
RECEIVED_AT_ONCE = 64 * 1024


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@cooperative
async def test_others_have_their_turn_again_and_again_while_50_mb_arrive(
    model: Model, size: int, own_server: Memcached, connect: Connect
) -> None:
    """No turn of the loop receives more than one large value, or one piece of many small ones."""
    cache = connect(own_server, timeout=100)
    values = {f"key:{number}": b"x" * size for number in range(50 * MEGABYTE // size)}
    assert await cache.set_many(values) == []
    received = [0]

    async def tick() -> None:
        before = cache.metrics()[own_server.address].bytes_received
        while True:
            await model.sleep(0)
            now = cache.metrics()[own_server.address].bytes_received
            received.append(now - before)
            before = now

    ticking = model.spawn(tick())
    await model.sleep(0)
    assert await model.join(model.spawn(cache.get_many(values))) == values
    model.cancel(ticking)
    assert sum(received) >= 40 * MEGABYTE
    assert max(received) <= size + 2 * RECEIVED_AT_ONCE


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
stalled = pinyon.Client(sys.argv[2], timeout=1)
ticks = 0
try:
    stalled.get("key")
except pinyon.Timeout:
    assert ticks > 5, ticks
    assert type(cache) is made_of
    cache.close()
    print("cooperates")
"""

ORDERS = {
    "patched first": "import gevent.monkey; gevent.monkey.patch_all(); import pinyon; {make}",
    "imported first": "import pinyon, gevent.monkey; gevent.monkey.patch_all(); {make}",
    "made first": "import pinyon; {make}; import gevent.monkey; gevent.monkey.patch_all()",
}


@pytest.mark.parametrize("kind", ["pinyon.Client", "type('Own', (pinyon.Client,), {})"])
@pytest.mark.parametrize("order", ORDERS)
def test_the_blocking_client_cooperates_in_a_patched_process(
    order: str, kind: str, server: Memcached, own_server: Memcached
) -> None:
    own_server.pause()
    make = f"made_of = {kind}; cache = made_of(sys.argv[1], timeout=20, connect_timeout=20)"
    program = PATCHED.format(first=ORDERS[order].format(make=make))
    assert what_it_prints(program, server.address, own_server.address) == "cooperates"


def test_where_nothing_is_patched_the_client_blocks(server: Memcached) -> None:
    assert gevent.get_hub() is not None
    with pinyon.Client(server.address, timeout=20, connect_timeout=20) as cache:
        assert type(cache) is pinyon.Client
        assert cache.set("key", "value")
        assert type(cache) is pinyon.Client


WORK_OF_GREENLETS = """
import sys, gevent, pinyon.gevent
cache = pinyon.gevent.Client(sys.argv[1], timeout=20, connect_timeout=20)
def work():
    for _ in range(100):
        cache.get("key")
gevent.joinall([gevent.spawn(work) for _ in range(64)], raise_error=True)
"""

WORK_OF_TASKS = """
import sys, asyncio, uvloop, pinyon.aio
async def main():
    cache = pinyon.aio.Client(sys.argv[1], timeout=20, connect_timeout=20)
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
    calls = (
        "getpid,sendto,sendmsg,write,writev,recvfrom,recvmsg,read,readv,epoll_wait,epoll_pwait,epoll_ctl,select,poll"
    )
    told = tmp_path / "strace"
    command = ["strace", "-f", "-c", "-o", str(told), "-e", f"trace={calls}", sys.executable, "-c", COSTS[name]]
    subprocess.run([*command, server.address], check=True, timeout=150)
    starting = tmp_path / "starting"
    command[4] = str(starting)
    command[-1] = COSTS[name].replace("range(100)", "range(1)")
    subprocess.run([*command, server.address], check=True, timeout=150)

    def total(path: Path) -> int:
        found: Any = re.search(r"^100.00 +\S+ +\S+ +(\d+)", path.read_text(), re.MULTILINE)
        return int(found[1])

    assert (total(told) - total(starting)) / (99 * 64) < 0.1
