"""Locks in threads, event loops and processes, and what happens when these end."""

from __future__ import annotations

import asyncio
import copy
import gc
import multiprocessing
import pickle
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from locking import nothing_left, queued, still_renewed
from models import BLOCKING, Model, cooperative, every_model, on_asyncio
from processes import what_it_prints
from servers import Redis
from waiting import PATIENT, wait_until

import pinyon
import pinyon.aio

LocksOn = Callable[..., Any]


def test_threads_share_locks_and_one_connection(own_redis: Redis) -> None:
    locks = pinyon.Locks(own_redis.url, **PATIENT)
    inside, errors = [0], []

    def work() -> None:
        try:
            for _ in range(25):
                with locks.lock("a", timeout=60):
                    inside[0] += 1
                    assert inside[0] == 1
                    inside[0] -= 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert own_redis.clients() == 1
    assert own_redis.left_behind() == set()
    locks.close()
    wait_until(lambda: own_redis.clients() == 0)


def test_renewals_need_no_gil(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks, locks.lock("a", ttl=9) as held:
        numbers, kept_for = 10_000_000, 0.0
        while kept_for < 5:
            numbers, begun, remaining = 2 * numbers, time.monotonic(), held.remaining()
            sum(range(numbers))  # one call keeps the GIL to its end
            kept_for = time.monotonic() - begun
        assert held.remaining() > remaining - kept_for + 1


@cooperative
def test_two_loops_in_two_threads_share_locks(model: Model, own_redis: Redis) -> None:
    locks = model.locks(own_redis.url, command_timeout=30, connect_timeout=30)
    inside: list[int] = []
    errors: list[BaseException] = []

    async def work(number: int) -> None:
        for _ in range(20):
            async with locks.lock("a", timeout=60):
                inside.append(number)
                assert inside == [number]
                await model.sleep(0)
                inside.pop()

    def run(number: int) -> None:
        async def scenario() -> None:
            assert await model.gather(work(number) for _ in range(5)) == [None] * 5

        try:
            model.run(scenario())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert own_redis.left_behind() == set()
    locks.close()
    wait_until(lambda: own_redis.clients() == 0)


@on_asyncio
def test_used_again_after_a_loop_was_closed(model: Model, own_redis: Redis) -> None:
    """Waiters from an earlier loop stop waiting once its connection is closed."""
    locks = model.locks(own_redis.url, heartbeat=0.2, command_timeout=30, connect_timeout=30)
    kept: list[Any] = []

    async def scenario(number: int) -> None:
        async with locks.lock("a", timeout=60):
            pass
        kept.append(await locks.lock("kept", ttl=0.5, timeout=60).acquire())
        model.spawn(locks.lock("kept", ttl=0.5, timeout=60).acquire())
        await model.sleep(0.01)

    for number in range(3):
        loop = model.loop()  # type: ignore[attr-defined]
        loop.run_until_complete(scenario(number))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    wait_until(lambda: own_redis.clients() == 0)
    tokens = [held.token for held in kept]
    assert tokens == sorted(set(tokens))
    locks.close()


@on_asyncio
async def test_what_was_taken_in_one_loop_is_not_given_back_in_another(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    locks = locks_on(redis)
    held = await locks.lock("a").acquire()
    errors: list[BaseException] = []

    async def elsewhere() -> None:
        await locks.is_locked("a")
        await held.release()

    def run() -> None:
        try:
            asyncio.run(elsewhere())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert isinstance(errors[0], pinyon.UsageError)
    assert "another event loop" in str(errors[0])
    held.check()
    assert await held.release()


@every_model
async def test_what_nobody_can_give_back_is_not_renewed(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    kept = await locks.lock("kept", ttl=15, on_lost=lambda held: None).acquire()
    assert await locks.lock("dropped", ttl=4).acquire()
    assert await locks.lock("with whom to tell", ttl=4, on_lost=lambda held: None).acquire()
    named = await locks.lock("that knows itself", ttl=4).acquire()
    named.on_lost(lambda _, named=named: named.release())
    del named
    gc.collect()
    async with others.lock("dropped", "with whom to tell", "that knows itself", timeout=60):
        pass
    await still_renewed(model, kept)
    assert await kept.release()
    await nothing_left(model, redis)


@every_model
async def test_what_was_given_back_is_forgotten(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis)
    gone = []
    for release in (True, False):
        held = await locks.lock("a", on_lost=lambda held: None).acquire()
        gone.append(weakref.ref(getattr(held, "wrapped", held)))
        if not release:
            assert await locks.force_release("a") == 1
            await model.until(lambda held=held: held.is_lost)
        await held.release()
        del held
    gc.collect()
    await model.until(lambda: gc.collect() is not None and all(each() is None for each in gone))


@on_asyncio
async def test_left_by_another_task_than_the_one_that_entered(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    lock = locks_on(redis).lock("a")
    await lock.__aenter__()
    await model.join(model.spawn(lock.__aexit__(None, None, None)))
    with pytest.raises(pinyon.UsageError, match="left by a caller that has not entered it"):
        await lock.__aexit__(None, None, None)
    await nothing_left(model, redis)


FORK = """
import os, sys, threading, time, pinyon
locks = pinyon.Locks(sys.argv[1], command_timeout=60, connect_timeout=60, ttl=6)
lost = []
def wait_until_renewed(held):
    last, give_up = held.remaining(), time.monotonic() + 60
    while (remaining := held.remaining()) <= last:
        assert time.monotonic() < give_up
        last = remaining
        time.sleep(0.01)
held = locks.lock("a", on_lost=lost.append).acquire()
waited = []
def wait():
    with locks.lock("a", timeout=60) as mine:
        waited.append(mine.token)
waiting = threading.Thread(target=wait)
waiting.start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    status = 1
    try:
        assert held.is_lost and held.remaining() == 0
        assert held.release() is False and held.extend(5) is False
        for use in (held.check, held.notify, held.wait):
            try:
                use()
            except pinyon.LockLost as error:
                assert "forked" in str(error), error
            else:
                raise AssertionError(use)
        assert locks.try_lock("a") is None
        assert locks.is_locked("a")
        with locks.lock("b") as mine:
            over = time.monotonic() + 6
            while time.monotonic() < over:
                wait_until_renewed(mine)
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
wait_until_renewed(held)
assert held.release() and not lost
waiting.join()
assert waited[0] > held.token
print("fine")
"""

FORK_IN_A_TASK = """
import asyncio, os, sys, pinyon.aio
locks = pinyon.aio.Locks(sys.argv[1], command_timeout=60, connect_timeout=60)

async def take(name):
    async with locks.lock(name, timeout=60) as held:
        return held.token

async def main():
    held = await locks.lock("a").acquire()
    waiting = asyncio.ensure_future(take("a"))
    await asyncio.sleep(0.1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio._set_running_loop(None)
            asyncio.set_event_loop(None)
            async def inside():
                assert held.is_lost
                assert await held.release() is False and await held.extend(5) is False
                assert await locks.try_lock("a") is None
                assert await take("b")
                return "fine"
            status = 0 if asyncio.run(inside()) == "fine" else 2
        finally:
            os._exit(status)
    await asyncio.get_running_loop().run_in_executor(None, os.waitpid, child, 0)
    held.check()
    assert await held.release()
    assert await waiting > held.token
    print("fine")

asyncio.run(main())
"""

FORK_IN_A_GREENLET = """
import os, sys, gevent, gevent.os, pinyon.gevent
locks = pinyon.gevent.Locks(sys.argv[1], command_timeout=60, connect_timeout=60)

def take(name):
    with locks.lock(name, timeout=60) as held:
        return held.token

def main():
    held = locks.lock("a").acquire()
    waiting = gevent.spawn(take, "a")
    gevent.sleep(0.1)
    child = gevent.os.fork_and_watch()
    if child == 0:
        status = 1
        try:
            assert held.is_lost
            assert held.release() is False and held.extend(5) is False
            assert locks.try_lock("a") is None
            assert take("b")
            status = 0
        finally:
            os._exit(status)
    assert gevent.os.waitpid(child, 0)[1] == 0
    held.check()
    assert held.release()
    assert waiting.get(60) > held.token
    print("fine")

gevent.spawn(main).get(100)
"""


@pytest.mark.parametrize("program", [FORK, FORK_IN_A_TASK, FORK_IN_A_GREENLET], ids=["thread", "task", "greenlet"])
def test_a_forked_child_begins_without_the_parents_locks(program: str, redis: Redis) -> None:
    assert what_it_prints(program, redis.url) == "fine"
    BLOCKING.run(nothing_left(BLOCKING, redis))


LEAVE_HOLDING = """
import sys, pinyon
locks = pinyon.Locks(sys.argv[1], command_timeout=60, connect_timeout=60, ttl=0.5)
held = locks.lock("a", on_lost=lambda held: None).acquire()
print("leaving")
"""

LEAVE_THE_LOOP_HOLDING = """
import asyncio, sys, pinyon.aio
locks = pinyon.aio.Locks(sys.argv[1], command_timeout=60, connect_timeout=60, ttl=0.5)
async def main():
    held = await locks.lock("a", on_lost=lambda held: None).acquire()
    asyncio.ensure_future(locks.lock("a", timeout=60).acquire())
    await asyncio.sleep(0.05)
    print("leaving")
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [LEAVE_HOLDING, LEAVE_THE_LOOP_HOLDING], ids=["thread", "task"])
def test_a_program_ends_at_once_and_silently_with_locks_held(program: str, redis: Redis) -> None:
    begun = time.monotonic()
    done = what_it_says(program, redis.url)
    assert done == "leaving"
    assert time.monotonic() - begun < 50
    with pinyon.Locks(redis.url, **PATIENT) as locks, locks.lock("a", timeout=60):
        pass


def what_it_says(program: str, *arguments: str) -> str:
    """Including what it writes where it should write nothing."""
    silently = "import sys, os\nos.dup2(1, 2)\n"
    return what_it_prints(silently + program, *arguments)


CHOOSE = """
import pinyon, sys
locks = pinyon.Locks(sys.argv[1], command_timeout=60, connect_timeout=60)
lock = locks.lock("a")
@locks.synchronized("b{n}")
def work(n):
    return n
import gevent.monkey
gevent.monkey.patch_all()
import gevent, time
turns = []
def tick():
    while True:
        turns.append(1)
        time.sleep(0.005)
ticking = gevent.spawn(tick)
with lock:
    waiting = gevent.spawn(lambda: lock.acquire().release())
    while len(turns) < 5:
        time.sleep(0.005)
assert waiting.get(60) and work(1) == 1
assert type(locks) is pinyon.Locks
print("turns")
"""


def test_a_process_that_gevent_has_patched_uses_greenlets(redis: Redis) -> None:
    assert what_it_prints(CHOOSE, redis.url) == "turns"
    assert what_it_prints(CHOOSE.replace("gevent.monkey.patch_all()", "raise SystemExit(print('not asked'))"), "/x")


def test_closed_from_another_thread_than_the_loops(redis: Redis) -> None:
    async def scenario() -> None:
        locks, others = pinyon.aio.Locks(redis.url, **PATIENT), pinyon.aio.Locks(redis.url, **PATIENT)
        held = await others.lock("a").acquire()
        waiting = asyncio.ensure_future(locks.lock("a", timeout=60).acquire())
        while queued(redis) == 0:
            await asyncio.sleep(0.01)
        await asyncio.get_running_loop().run_in_executor(None, locks.close)
        with pytest.raises(pinyon.Error, match="closed"):
            await asyncio.wait_for(waiting, 60)
        assert await held.release()
        others.close()

    asyncio.run(scenario())


def token_of(locks: pinyon.Locks) -> int:
    """Acquire and release a lock in another process."""
    with locks, locks.lock("a", timeout=60) as held:
        token: int = held.token
        return token


def test_locks_of_plain_settings_go_to_other_processes(redis: Redis) -> None:
    locks = pinyon.Locks(redis.url, namespace="shop", timeout=60, handler="script")
    with locks.lock("a") as held:
        first = held.token
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(token_of, (locks,)) > first
    again = copy.copy(locks)
    assert repr(again) == repr(locks)
    assert locks.lock("a").acquire()
    assert again.is_locked("a")
    assert again.try_lock("a") is None


@pytest.mark.parametrize("kind", [pinyon.Locks, pinyon.aio.Locks])
def test_what_belongs_to_a_process_stays_there(kind: Any) -> None:
    for own in ({"on_event": print}, {"password": lambda: "secret"}, {"tls": pinyon.Tls()}):
        with pytest.raises(TypeError, match=f"a pinyon.*Locks with {next(iter(own))} cannot be copied or pickled"):
            pickle.dumps(kind("redis://127.0.0.1", **own))
