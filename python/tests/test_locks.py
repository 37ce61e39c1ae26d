"""Locks as a program uses them, in every concurrency model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from locking import nothing_left, queued
from models import Model, every_model, shuffled
from servers import Redis

import pinyon

LocksOn = Callable[..., Any]


@every_model
async def test_taking_and_giving_back(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis, namespace="app"), locks_on(redis, namespace="app")
    async with locks.lock("a", b"b", ttl=700, timeout=60) as held:
        assert held.names == ("a", b"b")
        assert redis.keys() == {b"{app}:l:a", b"{app}:l:b", b"{app}:#f"}
        assert 600 < held.remaining() < 700
        held.check()
        assert not held.is_lost
        assert held.token_bytes == b"%016x" % held.token
        assert "'a', b'b'" in repr(held)
        assert str(held.token) in repr(held)
        for other in (locks, others):
            status = {each.name: each for each in await other.status("c", "b", "a")}
            assert list(status) == ["c", "b", "a"]
            assert status["a"].holder == status["b"].holder == await other.owner("c", "a")
            assert status["a"].token == held.token
            assert 600 < status["a"].remaining < 701
            assert 0 <= status["a"].age < 60
            assert status["c"] == ("c", None, None, None, [], None, [], {})
            assert await other.is_locked("c", "a")
            assert not await other.is_locked("c")
            assert await other.try_lock("a", "c") is None
    assert held.is_lost
    assert held.remaining() == 0
    with pytest.raises(pinyon.LockLost, match="released"):
        held.check()
    assert await held.release() is False
    assert await others.owner("a") is None
    await nothing_left(model, redis)


@every_model
async def test_all_names_or_none(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    names = [f"name {number}" for number in range(1000)]
    held = await locks.lock("name 500").acquire()
    assert await others.try_lock(*names) is None
    assert redis.left_behind() == {b"{pinyon}:l:name 500"}
    waiting = model.spawn(others.lock(*names, timeout=60).acquire())
    await model.until(lambda: queued(redis) == 1000)
    assert await locks.is_locked(*names[:500]) is False
    await held.release()
    every = await model.join(waiting)
    assert await locks.owner(*names[:1]) == await locks.owner(names[-1])
    assert await locks.try_lock("name 999") is None
    assert await every.release() is True
    await nothing_left(model, redis)


@every_model
async def test_what_is_free_is_had_without_waiting(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis)
    async with locks.lock("a", timeout=0), locks.lock("b", timeout=math.inf):
        pass
    held = await locks.try_lock("a")
    assert await held.release() is True
    await nothing_left(model, redis)


@pytest.mark.parametrize("lose", ["FLUSHALL", "restart"])
@every_model
async def test_tokens_only_ever_rise(model: Model, lose: str, own_redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(own_redis), locks_on(own_redis)
    tokens = []
    for _ in range(3):
        for each in (locks, others):
            for name in ("a", "b"):
                async with each.lock(name) as held:
                    tokens.append(held.token)
        if lose == "restart":
            own_redis.restart()
        else:
            own_redis.ask("FLUSHALL")
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 12


@every_model
async def test_first_come_first_served_among_clients(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    """The server knows one waiter per client. Further waiters keep their order in the client."""
    # Nothing tells when a thread has joined its client's line.
    count = 3 if model.cancels else 12
    clients = [locks_on(redis) for _ in range(count)]
    order: list[int] = []

    async def visit(number: int) -> None:
        async with clients[number % count].lock("a", timeout=60):
            order.append(number)

    holder = locks_on(redis)
    held = await holder.lock("a").acquire()
    tasks = []
    for number in range(12):
        tasks.append(model.spawn(visit(number)))
        await model.sleep(0)
        expected = min(number + 1, count)
        await model.until(lambda expected=expected: queued(redis) == expected)
    await held.release()
    for task in tasks:
        await model.join(task)
    for client in range(count):
        assert [number for number in order if number % count == client] == list(range(client, 12, count))
    assert [number for number in order if number < count] == list(range(count))
    await nothing_left(model, redis)


@every_model
async def test_taking_again_what_one_holds(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis)
    again = locks.lock("a", "b", reentrant=True)
    async with again as outer:
        with pytest.raises(pinyon.AlreadyHeld, match=r"already.*reentrant"):
            await locks.lock("b", "c").acquire()
        with pytest.raises(pinyon.AlreadyHeld):
            await locks.lock("b", "c", reentrant=True).acquire()
        assert await locks.try_lock("b") is None
        async with again as inner, locks.lock("a", reentrant=True) as part:
            assert inner.token == outer.token == part.token
        outer.check()
        assert await locks.is_locked("a")
        stranger = model.spawn(locks.try_lock("a", reentrant=True))
        assert await model.join(stranger) is None
    await nothing_left(model, redis)


@every_model
async def test_two_of_one_client_who_wait_for_each_other_are_told(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    locks = locks_on(redis)
    has = [False, False]

    async def cross(number: int) -> str:
        own, other = "ab"[number], "ba"[number]
        async with locks.lock(own):
            has[number] = True
            await model.until(lambda: all(has))
            try:
                async with locks.lock(other, timeout=60):
                    return "had both"
            except pinyon.Deadlock as error:
                return f"was told of {len(error.cycle)}"

    assert sorted(await model.gather(cross(number) for number in range(2))) == ["had both", "was told of 2"]
    await nothing_left(model, redis)


@every_model
async def test_nested_locks_in_one_order_are_no_deadlock(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    clients = [locks_on(redis) for _ in range(2)]

    async def nest(number: int) -> None:
        for _ in range(5):
            async with clients[number % 2].lock("a", timeout=60), clients[number % 2].lock("b", timeout=60):
                pass

    assert await model.gather(nest(number) for number in range(6)) == [None] * 6
    await nothing_left(model, redis)


@every_model
async def test_nobody_is_ever_inside_with_another(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    clients = [locks_on(redis) for _ in range(3)]
    inside: dict[str, int] = {}
    tokens: dict[str, list[int]] = {}

    async def work(number: int) -> None:
        chance = shuffled(number)
        for _ in range(10):
            names = chance.sample("abcdef", chance.randint(1, 4))
            async with clients[number % 3].lock(*names, timeout=60) as held:
                for name in names:
                    assert inside.setdefault(name, number) == number
                    tokens.setdefault(name, []).append(held.token)
                await model.sleep(0)
                for name in names:
                    del inside[name]

    assert await model.gather(work(number) for number in range(24)) == [None] * 24
    assert all(each == sorted(set(each)) for each in tokens.values())
    await nothing_left(model, redis)
