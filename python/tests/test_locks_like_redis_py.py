"""Locks that are acquired and released by calls, as users of redis-py and of threading know them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from locking import nothing_left
from models import Model, every_model
from servers import Redis

import pinyon
import pinyon.aio

LocksOn = Callable[..., Any]


@every_model
async def test_acquired_and_released(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    lock, other = locks_on(redis).lock("a", "b"), locks_on(redis).lock("b")
    assert (await lock.locked(), lock.owned()) == (False, False)
    held = await lock.acquire()
    assert held
    assert held.token > 0
    assert (await lock.locked(), lock.owned()) == (True, True)
    assert (await other.locked(), other.owned()) == (True, False)
    assert await lock.extend(500) is True
    assert 400 < held.remaining() <= 500
    assert await lock.release() is True
    assert (await lock.locked(), lock.owned(), held.is_lost) == (False, False, True)
    await nothing_left(model, redis)


@every_model
async def test_acquiring_without_waiting(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    lock, other = locks_on(redis).lock("a"), locks_on(redis).lock("a")
    assert await lock.acquire(blocking=False)
    assert await other.acquire(blocking=False) is None
    assert await other.acquire(False) is None
    assert not other.owned()
    with pytest.raises(pinyon.LockTimeout):
        await other.acquire(timeout=0)
    with pytest.raises(pinyon.LockTimeout):
        await other.acquire(True, 2)
    waiting = model.spawn(other.acquire(timeout=60))
    await lock.release()
    assert await model.join(waiting)
    await (await model.join(waiting)).release()
    await nothing_left(model, redis)


@every_model
async def test_arguments_that_make_no_sense(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    lock = locks_on(redis).lock("a")
    with pytest.raises(pinyon.UsageError, match="blocking=False does not wait: leave out timeout"):
        await lock.acquire(blocking=False, timeout=1)
    with pytest.raises(pinyon.UsageError, match=r"blocking must be True or False, not 0\.1"):
        await lock.acquire(0.1)
    with pytest.raises(pinyon.UsageError, match="timeout must be a number of seconds, 0 or more, not -1"):
        await lock.acquire(timeout=-1)
    for method in (lock.release, lambda: lock.extend(5)):
        with pytest.raises(pinyon.UsageError, match="the lock on 'a' was not acquired by the caller: acquire it first"):
            await method()
    await nothing_left(model, redis)


@every_model
async def test_blocks_and_calls_do_not_release_each_other(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    lock = locks_on(redis).lock("a", reentrant=True)
    async with lock as outer:
        with pytest.raises(pinyon.UsageError, match="was not acquired"):
            await lock.release()
        await lock.acquire()
        async with lock:
            pass
        assert await lock.release() is True
        assert not outer.is_lost
    held = await lock.acquire()
    async with lock:
        pass
    assert lock.owned()
    assert await held.release() is True
    assert not lock.owned()
    await nothing_left(model, redis)


@every_model
async def test_what_was_released_otherwise_is_not_kept(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    lock = locks_on(redis).lock("a")
    gone = []
    for _ in range(3):
        held = await lock.acquire()
        await held.release()
        gone.append(weakref.ref(getattr(held, "wrapped", held)))
        del held
    await lock.acquire()
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
    await lock.release()
    await nothing_left(model, redis)


@every_model
async def test_what_is_acquired_is_kept_by_the_lock_alone(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    """A program that ignores what ``acquire`` returns holds the lock until it is released, renewed on the way."""
    lock, watching = locks_on(redis).lock("a", ttl=10), locks_on(redis)
    first = (await lock.acquire()).token
    gc.collect()
    before, remaining = 10.0, 10.0
    while remaining <= before:
        await model.sleep(0.01)
        before, remaining = remaining, (await watching.status("a"))[0].remaining
        assert remaining is not None, "it has expired"
    assert lock.owned()
    assert (await watching.status("a"))[0].token == first
    assert await lock.release() is True
    await nothing_left(model, redis)


@every_model
async def test_a_lock_that_goes_with_what_it_holds_is_not_renewed(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    locks = locks_on(redis)
    await locks.lock("a", ttl=0.5).acquire()
    await model.until(lambda: not redis.left_behind())


@every_model
async def test_a_loss_is_told(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    told: list[Any] = []
    lock = locks_on(redis).lock("a", on_lost=told.append)
    await lock.acquire()
    await locks_on(redis).force_release("a")
    await model.until(lambda: told)
    assert not lock.owned()
    assert await lock.release() is False


@pytest.mark.parametrize("kind", [pinyon.Locks, pinyon.aio.Locks])
@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("blocking_timeout", "pass timeout, which is how long to wait; redis-py's timeout is ttl here"),
        ("sleep", "leave it out, as waiting does not poll; redis-py's timeout is ttl here"),
        ("blocking", r"call acquire\(blocking=False\), or try_lock"),
        ("thread_local", "leave it out, as a lock belongs to the thread or task that acquired it"),
    ],
)
def test_what_redis_py_calls_otherwise_says_how(kind: Any, argument: str, hint: str) -> None:
    with pytest.raises(pinyon.UsageError, match=rf"lock\(\) has no argument '{argument}': {hint}.*from-redis-py\.md"):
        kind().lock("a", **{argument: 5})


@pytest.mark.parametrize("kind", [pinyon.Locks, pinyon.aio.Locks])
def test_acquire_takes_nothing_that_redis_py_calls_otherwise(kind: Any) -> None:
    with pytest.raises(pinyon.UsageError, match=r"acquire\(\) has no argument 'blocking_timeout': pass timeout"):
        kind().lock("a").acquire(blocking_timeout=5)


@pytest.mark.parametrize("kind", [pinyon.Locks, pinyon.aio.Locks])
def test_any_other_argument_is_a_type_error(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"lock\(\) got an unexpected keyword argument 'time_out'"):
        kind().lock("a", time_out=5)
