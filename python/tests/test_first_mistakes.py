"""First mistakes: each line of the table in every concurrency model, and what is accepted and warned of instead."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import inspect
import json
import multiprocessing
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from first_mistakes import LOCKS, PAGE, TABLES, Mistake, normalised, page
from logs import forgotten, warned
from models import Model, every_model, on_asyncio
from pinyon_verify.ports import free_port
from servers import Memcached, Redis
from waiting import SOON, wait_until

import pinyon
import pinyon.aio
from pinyon.frameworks.cachelib import PinyonCache

Connect = Callable[..., Any]

MISTAKES = [mistake for mistakes in TABLES.values() for mistake in mistakes]
HELD = [mistake for mistake in LOCKS if "held by" in mistake.message]


@pytest.fixture
def stopped() -> Iterator[str]:
    """A server whose connections are accepted by its kernel and by nobody else."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"redis://127.0.0.1:{silent.getsockname()[1]}"


@pytest.fixture
def names(model: Model, connect: Connect, server: Memcached, redis: Redis, locks_on: Connect, stopped: str) -> Any:
    def make(*servers: Any, **settings: Any) -> Any:
        return model.client(*(servers or (server.address,)), **{"timeout": 30, "connect_timeout": 30, **settings})

    return {
        "cache": connect(server, namespace="shop:"),
        "Client": make,
        "Locks": lambda *urls, **settings: model.locks(*(urls or (redis.address,)), **settings),
        "Lock": pinyon.Lock,
        "locks": locks_on(redis),
        "other_locks": locks_on(redis),
        "dead": f"redis://127.0.0.1:{free_port()}",
        "stopped": stopped,
        "json": json,
    }


async def played(code: str, names: dict[str, Any]) -> Any:
    outcome = eval(code, dict(names))  # the tests' own lines
    return await outcome if inspect.isawaitable(outcome) else outcome


async def raised(mistake: Mistake, names: dict[str, Any]) -> Exception:
    with pytest.raises((pinyon.Error, TypeError)) as info:
        await played(mistake.code, names)
    return info.value


@every_model
@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each not in HELD], ids=lambda each: each.code)
async def test_a_mistake_says_what_is_wrong_and_what_to_do(model: Model, names: Any, mistake: Mistake) -> None:
    kept = await played(mistake.before, names) if mistake.before else None
    error = await raised(mistake, names)
    assert (type(error).__name__, normalised(str(error))) == (mistake.raises, mistake.message)
    del kept


@every_model
@pytest.mark.parametrize("mistake", HELD, ids=lambda each: each.code)
async def test_a_timeout_says_who_holds_the_lock(model: Model, names: Any, mistake: Mistake) -> None:
    kept = await played(mistake.before, names)
    give_up = time.monotonic() + SOON
    # The look that finds the holder ends with the lock's time: on a machine that stands still it may come too late.
    while normalised(str(error := await raised(mistake, names))) != mistake.message:
        assert time.monotonic() < give_up, str(error)
    assert isinstance(error, pinyon.LockTimeout)
    assert isinstance(error, pinyon.Timeout)
    assert isinstance(error, TimeoutError)
    assert await names["locks"].owner("a") == error.holder
    del kept


@every_model
async def test_a_redis_that_stops_is_not_contention(model: Model, own_redis: Redis, locks_on: Connect) -> None:
    locks = locks_on(own_redis, command_timeout=0.5, connect_timeout=0.5)
    await (await locks.lock("a").acquire()).release()
    own_redis.pause()
    try:
        for timeout in (0.2, 0):
            with pytest.raises(pinyon.Error) as info:
                await locks.lock("a", timeout=timeout).acquire()
            assert not isinstance(info.value, pinyon.LockError), info.value
            assert isinstance(info.value, (pinyon.Timeout, pinyon.ConnectError, pinyon.ConnectionLost))
        with pytest.raises((pinyon.Timeout, pinyon.ConnectError, pinyon.ConnectionLost)) as info:
            await locks.try_lock("a")
        assert not isinstance(info.value, pinyon.LockError)
    finally:
        own_redis.resume()


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make first-mistakes writes it anew"


@every_model
async def test_locks_take_a_timedelta(model: Model, redis: Redis, locks_on: Connect) -> None:
    locks, time_ = locks_on(redis), timedelta(seconds=30)
    held = await locks.lock("a", ttl=time_, timeout=time_, max_hold=time_).acquire()
    assert 20 < held.remaining() <= 30
    assert await held.extend(timedelta(minutes=2))
    assert 60 < held.remaining() <= 120
    await held.release()


@every_model
@pytest.mark.parametrize("as_list", [False, True])
async def test_a_memcached_url_is_a_server(model: Model, server: Memcached, as_list: bool) -> None:
    url = f"memcached://{server.address}"
    cache = model.client([url] if as_list else url, timeout=30, connect_timeout=30)
    with contextlib.closing(cache):
        assert await cache.set("key", "value")
        assert list(cache.metrics()) == [server.address]


@every_model
@pytest.mark.parametrize("serializer", ["portable", "pickle", "json"])
async def test_a_counter_reads_as_an_integer(
    model: Model, connect: Connect, server: Memcached, serializer: str
) -> None:
    cache = connect(server, serializer=serializer)
    assert await cache.incr("count", 3, initial=5) == 5
    assert await cache.get("count") == 5
    assert await cache.incr("count", 3, initial=5) == 8
    assert (await cache.get("count"), type(await cache.get("count"))) == (8, int)
    assert await cache.decr("other", initial=7, ttl=60) == 7
    assert await cache.get("other") == 7
    value, left = await cache.get_with_ttl("other")
    assert value == 7
    assert 0 < left <= 60


@every_model
async def test_a_counter_that_is_made_at_the_same_time_is_made_once(
    model: Model, connect: Connect, server: Memcached
) -> None:
    cache = connect(server)
    counts = await model.gather(cache.incr("count", initial=1) for _ in range(200))
    assert sorted(counts) == list(range(1, 201))
    assert await cache.get("count") == 200


@on_asyncio
async def test_a_forgotten_await_warns(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    with warned() as caught:
        cache.set("key", 1)
        cache.get_many(["key"])
        dropped = cache.incr("count", initial=1)
        del dropped
        cache.version()
        await model.until(lambda: len(forgotten(caught)) == 4)
        await cache.get("key")
    expected = {f"'pinyon.aio.Client.{name}' was never awaited" for name in ("set", "get_many", "incr", "version")}
    assert {*forgotten(caught)} == expected


@on_asyncio
async def test_a_forgotten_await_of_a_lock_warns(model: Model, redis: Redis, locks_on: Connect) -> None:
    locks = locks_on(redis)
    held = await locks.lock("a").acquire()
    with warned() as caught:
        held.extend(60)
        await locks.status("a")
        held.release()
        await locks.status("a")
        locks.lock("b").acquire()
    assert forgotten(caught) == [
        "'pinyon.aio.Held.extend' was never awaited",
        "coroutine 'Lock.acquire' was never awaited",
    ]


@on_asyncio
async def test_what_is_awaited_later_does_not_warn(model: Model, connect: Connect, server: Memcached) -> None:
    cache, over = connect(server), []
    with warned() as caught:
        first, second = cache.get("a"), cache.get("b")
        await cache.get("c")
        await model.sleep(0.05)
        await second
        await first
        cache.get("d").add_done_callback(over.append)
        await model.gather(cache.get(str(number)) for number in range(20))
        await model.until(lambda: over)
    assert forgotten(caught) == []


@on_asyncio
async def test_a_future_that_is_kept_does_not_warn_but_its_failure_is_logged(model: Model, connect: Connect) -> None:
    cache, logged = connect(f"127.0.0.1:{free_port()}"), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context["message"]))
    with warned() as caught:
        kept = cache.set("key", 1)
        await model.until(kept.done)
        del kept
        gc.collect()
    assert forgotten(caught) == []
    assert logged == ["Reply exception was never retrieved"]


def test_a_program_that_forgets_to_await_is_told(server: Memcached) -> None:
    program = f"""
import asyncio, pinyon.aio
cache = pinyon.aio.Client({server.address!r})
async def main():
    cache.set("key", "value")
asyncio.run(main(), debug=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=True)
    assert "RuntimeWarning: 'pinyon.aio.Client.set' was never awaited (called at <string>:5)" in done.stderr


@pytest.mark.parametrize("kind", ["threads", "gevent", "asyncio"])
def test_a_server_that_goes_and_comes_back_is_seen_without_any_logging(own_server: Memcached, kind: str) -> None:
    asking = {
        "threads": "import pinyon\ncache = pinyon.Client(SERVER, **SETTINGS)\nask = lambda: cache.get('key', 'miss')\n"
        "turn = lambda: None",
        "gevent": "import gevent, pinyon.gevent\ncache = pinyon.gevent.Client(SERVER, **SETTINGS)\n"
        "ask = lambda: cache.get('key', 'miss')\nturn = lambda: gevent.sleep(0.1)",
        "asyncio": "import asyncio, pinyon.aio\ncache = pinyon.aio.Client(SERVER, **SETTINGS)\n"
        "loop = asyncio.new_event_loop()\n"
        "async def get(): return await cache.get('key', 'miss')\n"
        "ask = lambda: loop.run_until_complete(get())\nturn = lambda: loop.run_until_complete(asyncio.sleep(0.1))",
    }[kind]
    program = f"""
import sys
SERVER, SETTINGS = {own_server.address!r}, dict(on_failure="miss", timeout=60, connect_timeout=60)
{asking}
for line in sys.stdin:
    print(ask(), flush=True)
turn()  # a loop tells of events in a turn of their own
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None

        def ask() -> str:
            process.stdin.write("\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return process.stdout.readline().strip()  # type: ignore[union-attr]

        with pinyon.Client(own_server.address, timeout=60, connect_timeout=60) as cache:
            cache.set("key", "hit")
        assert ask() == "hit"
        own_server.stop()
        for _ in range(3):
            assert ask() == "miss"
        own_server.restart()
        with pinyon.Client(own_server.address, timeout=60, connect_timeout=60) as cache:
            cache.set("key", "hit")
        wait_until(lambda: ask() == "hit")
        process.stdin.close()
        lines = process.stderr.read().splitlines()
    marked = [line for line in lines if "is marked down" in line]
    back = [line for line in lines if "is up again" in line]
    assert (len(marked), len(back)) == (1, 1), lines


def test_cachelib_counts_numbers_alone(server: Memcached) -> None:
    cache = PinyonCache(server.address, timeout=30, connect_timeout=30)
    cache.set("number", 1)
    assert cache.inc("number") == 2
    cache.set("bytes", b"1")
    with pytest.raises(
        pinyon.UnsupportedType, match="count numbers, and 'bytes' has a value of type bytes: set a number"
    ):
        cache.inc("bytes")
    assert cache.get("bytes") == b"1"
    for count in (cache.inc, cache.dec):
        with pytest.raises(pinyon.UnsupportedType, match="delta must be a number, not bytes"):
            count("number", b"1")


def wrong_blocks() -> list[Any]:
    locks, awaited = pinyon.Locks("redis://127.0.0.1:1"), pinyon.aio.Locks("redis://127.0.0.1:1")
    return [
        *[(each, True) for each in (pinyon.Client("127.0.0.1:1"), locks, locks.lock("a"))],
        *[(each, False) for each in (pinyon.aio.Client("127.0.0.1:1"), awaited, awaited.lock("a"))],
    ]


@pytest.mark.parametrize(("given", "is_awaited"), wrong_blocks(), ids=lambda each: str(type(each)))
def test_the_wrong_kind_of_block_is_told_the_right_one(given: Any, is_awaited: bool) -> None:
    async def block() -> None:
        if is_awaited:
            async with given:
                pass
        else:
            with given:
                pass

    with pytest.raises(pinyon.UnsupportedType, match="use it by `with`" if is_awaited else "use it by `async with`"):
        asyncio.run(block())
    assert not hasattr(given, "__aenter__" if is_awaited else "__enter__")
    assert hasattr(given, "__enter__" if is_awaited else "__aenter__")
    inspect.getmembers(given)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    "given",
    [given for given, _ in wrong_blocks() if not isinstance(given, (pinyon.Locks, pinyon.aio.Locks))],
    ids=lambda each: str(type(each)),
)
def test_what_belongs_to_its_process_is_not_copied(given: Any, way: Callable[[Any], Any]) -> None:
    with pytest.raises(
        pinyon.Unpicklable, match=r"a pinyon\.(aio\.)?(Client|Lock) .* make another one in each"
    ) as info:
        way(given)
    assert isinstance(info.value, (TypeError, pickle.PicklingError))


def test_a_spawned_process_is_not_given_a_client() -> None:
    process = multiprocessing.get_context("spawn").Process(target=print, args=(pinyon.Client("127.0.0.1:1"),))
    with pytest.raises(pinyon.Unpicklable, match="make another one in each other process"):
        process.start()


def test_a_coroutine_function_makes_nothing_for_threads(server: Memcached) -> None:
    async def load() -> int:
        return 1

    with pinyon.Client(server.address, timeout=30, connect_timeout=30) as cache, warned() as caught:
        with pytest.raises(
            pinyon.UnsupportedType, match=r"make returned a coroutine \(.*load\), which is not awaited here"
        ):
            cache.get_or_set("key", load, 60)
        assert cache.lease("key").state is pinyon.Outcome.WON, "the lease was given back"
        gc.collect()
    assert forgotten(caught) == []


@pytest.mark.parametrize("serializer", [json, type("Class", (), {"dump": None, "load": None})])
def test_a_serializer_is_an_object_of_its_own(serializer: Any) -> None:
    with pytest.raises(pinyon.UnsupportedType, match="serializer must be one of 'portable'"):
        pinyon.Client(serializer=serializer)
