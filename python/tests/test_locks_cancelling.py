"""A caller that goes away while it waits for a lock or releases one leaves nothing behind, and no other caller waits
in vain.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop
from gate import Gate
from locking import nothing_left, queued
from models import CancelledError, GaveUpError, Model, cooperative, every_model, shuffled
from servers import Redis
from waiting import PATIENT, SOON

import pinyon
import pinyon.aio

LocksOn = Callable[..., Any]


@pytest.fixture
def redis_gate(redis: Redis) -> Iterator[Gate]:
    with Gate(redis) as gate:
        yield gate


def url_of(gate: Gate) -> str:
    return f"redis://{gate.address}"


@contextlib.contextmanager
def once(condition: Callable[[], Any]) -> Iterator[threading.Event]:
    """Sets the event as soon as the condition holds."""
    so, over = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            if condition():
                return so.set()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield so
    finally:
        over.set()
        watching.join()


async def take(locks: Any, *names: str, **settings: Any) -> int:
    async with locks.lock(*names, **{"timeout": 100, **settings}) as held:
        token: int = held.token
        return token


@every_model
async def test_given_up_in_the_servers_queue(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    held = await locks.lock("b").acquire()
    with once(lambda: queued(redis) == 2) as waits:
        await model.abandon(take(others, "a", "b"), waits)
    await model.until(lambda: queued(redis) == 0)
    async with others.lock("a", timeout=0):
        pass
    await held.release()
    assert await take(others, "b")
    await nothing_left(model, redis)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_loop_that_is_closed_gives_up_what_it_waits_for(new_loop: Callable[[], Any], redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = locks.lock("a", timeout=SOON).acquire()
        others = pinyon.aio.Locks(redis.url, **{**PATIENT, "ttl": 600})
        loop = new_loop()

        async def wait() -> asyncio.Task[int]:
            waiting = asyncio.ensure_future(take(others, "a"))
            while queued(redis) < 1:
                await asyncio.sleep(0.005)
            return waiting

        waiting = loop.run_until_complete(wait())
        loop.close()
        held.release()
        with locks.lock("a", timeout=SOON):
            assert not waiting.done()


@every_model
async def test_given_up_in_the_clients_own_line(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    held = await others.lock("a").acquire()
    waiting = model.spawn(take(locks, "a", "b"))
    await model.until(lambda: queued(redis) == 2)
    soon = threading.Timer(0.05, lambda: None)
    soon.start()
    await model.abandon(take(locks, "b", "c"), soon.finished)
    last = model.spawn(take(locks, "c", timeout=60))
    assert await model.join(last)
    await held.release()
    assert await model.join(waiting)
    assert await take(locks, "a", "b", "c", timeout=0)
    await nothing_left(model, redis)


@every_model
async def test_a_grant_that_comes_too_late_is_given_back(
    model: Model, redis: Redis, redis_gate: Gate, locks_on: LocksOn
) -> None:
    others = locks_on(url_of(redis_gate))
    assert await take(others, "other")
    with pinyon.Locks(redis.url, **PATIENT) as holder:
        held = holder.lock("a").acquire()

        def grant_unseen() -> bool:
            if queued(redis) == 0:
                return False
            redis_gate.hold(requests=0, replies=0)
            return held.release()

        with once(grant_unseen) as granted:
            await model.abandon(take(others, "a"), granted)
        assert holder.is_locked("a")
    redis_gate.release()
    await nothing_left(model, redis)
    assert await take(others, "a", timeout=60)


@every_model
async def test_given_up_before_the_answer(model: Model, redis: Redis, redis_gate: Gate, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(url_of(redis_gate))
    assert await take(others, "other")
    await model.abandon(take(others, "a"), redis_gate.hold(replies=0))
    redis_gate.release()
    assert await take(locks, "a", timeout=60)
    assert await take(others, "a", timeout=60)
    assert redis_gate.accepted == 1
    await nothing_left(model, redis)


@every_model
async def test_given_up_while_it_connects(model: Model, redis: Redis, redis_gate: Gate, locks_on: LocksOn) -> None:
    others = locks_on(url_of(redis_gate))
    await model.abandon(take(others, "a"), redis_gate.hold(replies=0))
    redis_gate.release()
    assert await take(others, "a", timeout=60)
    await nothing_left(model, redis)


@every_model
async def test_who_is_interrupted_while_it_gives_back_has_given_back(
    model: Model, redis: Redis, redis_gate: Gate, locks_on: LocksOn
) -> None:
    locks = locks_on(url_of(redis_gate))
    held = await locks.lock("a", "b").acquire()

    async def give_back() -> None:
        await held.release()

    await model.abandon(give_back(), redis_gate.hold(replies=0))
    assert not redis.left_behind()
    redis_gate.release()
    assert held.is_lost
    assert await take(locks, "a", "b", timeout=0)
    await nothing_left(model, redis)


@cooperative
async def test_a_task_that_is_cancelled_inside_gives_back(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis)
    entered = threading.Event()

    async def work() -> None:
        async with locks.lock("a", "b"):
            entered.set()
            await model.sleep(10)

    await model.abandon(work(), entered)
    assert await take(locks, "a", "b", timeout=60)
    await nothing_left(model, redis)


@every_model
async def test_given_up_while_parked(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis)

    async def park() -> None:
        async with locks.lock("a") as held:
            await held.wait(100)

    with once(lambda: redis.ask("ZCARD", "{pinyon}:#n") == 1) as parked:
        await model.abandon(park(), parked)
    async with locks.lock("a", timeout=60) as held:
        await model.until(lambda: redis.ask("ZCARD", "{pinyon}:#n") == 0)
        assert await held.notify() == 0
    await nothing_left(model, redis)


@cooperative
async def test_a_timeout_of_the_callers_own(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    """A ``gevent.Timeout``, or ``asyncio.wait_for``."""
    locks, others = locks_on(redis), locks_on(redis)
    async with locks.lock("a"):
        with pytest.raises(GaveUpError):
            await model.within(0.05, take(others, "a"))
        await model.until(lambda: queued(redis) == 0)
    assert await take(others, "a", timeout=60)
    await nothing_left(model, redis)


@cooperative
async def test_cancelled_at_any_turn_of_the_loop(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    for turns in range(12):
        for delay in (0, 0.0005):
            task = model.spawn(take(locks, "a", "b"))
            rival = model.spawn(take(others, "b", "c"))
            for _ in range(turns):
                await model.sleep(delay)
            model.cancel(task)
            with contextlib.suppress(CancelledError):
                await model.join(task)
            assert await model.join(rival)
    assert await take(others, "a", "b", "c", timeout=60)
    await nothing_left(model, redis)


async def storm(model: Model, clients: list[Any], inside: dict[str, int], seed: int) -> int:
    """Acquires and releases twelve times, mostly cancelled. Returns how many times it was cancelled."""
    chance, cancelled = shuffled(seed), 0

    async def use() -> None:
        names = chance.sample("abcdefgh", chance.randint(1, 3))
        async with clients[seed % len(clients)].lock(*names, timeout=60):
            for name in names:
                assert inside.setdefault(name, seed) == seed
            try:
                await model.sleep(chance.choice((0, 0, 0.001)))
            finally:
                for name in names:
                    del inside[name]

    for _ in range(12):
        if chance.random() < 0.2:
            try:
                await model.within(chance.random() * 0.01, use())
            except GaveUpError:
                cancelled += 1
            continue
        task = model.spawn(use())
        for _ in range(chance.choice((0, 1, 1, 2, 3, 5, 8))):
            await model.sleep(0)
        model.cancel(task)
        try:
            await model.join(task)
        except CancelledError:
            cancelled += 1
    return cancelled


@cooperative
async def test_64_workers_among_a_storm_of_cancellations(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    clients, holder = [locks_on(redis, command_timeout=60) for _ in range(3)], locks_on(redis)
    inside: dict[str, int] = {}
    held = await holder.lock(*"abcdefgh").acquire()
    assert await model.gather(storm(model, clients, inside, seed) for seed in range(64)) == [12] * 64
    assert await held.release()
    counts = await model.gather(storm(model, clients, inside, seed) for seed in range(64))
    assert [count for count in counts if not isinstance(count, int)] == []
    assert not inside
    await nothing_left(model, redis)
    for client in clients:
        assert await take(client, *"abcdefgh", timeout=0)


@every_model
async def test_closing_ends_every_wait(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    held = await others.lock("a").acquire()
    waiting = [model.spawn(take(locks, "a")) for _ in range(3)]
    await model.until(lambda: queued(redis) == 1)
    begun = time.monotonic()
    locks.close()
    for task in waiting:
        with pytest.raises(pinyon.Error, match="closed"):
            await model.join(task)
    assert time.monotonic() - begun < 60
    for use in (lambda: take(locks, "b"), lambda: locks.is_locked("a"), lambda: locks.execute("PING")):
        with pytest.raises(pinyon.Closed, match="make another"):
            await use()
    locks.close()
    assert "closed" in repr(locks)
    assert await held.release()
    assert await take(others, "a", timeout=60)
