"""Readers, writers and permits, in every concurrency model."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from locking import nothing_left, queued
from models import Model, every_model
from servers import Redis
from waiting import PATIENT

import pinyon

LocksOn = Callable[..., Any]
LIMIT = 3


@every_model
async def test_readers_read_together_and_a_writer_is_alone(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    async with locks.read("a", "b") as one, others.read("a") as other:
        (status,) = await locks.status("a")
        assert len(status.readers) == 2
        assert status.holder in status.readers
        assert one.names == ("a", "b")
        assert await others.try_lock("a") is None
        # A client's own readers would keep its writer from asking.
        waiting = model.spawn(locks_on(redis).write("a", timeout=60).acquire())
        await model.until(lambda: queued(redis) == 1)
        assert await locks.try_lock(read="a") is None, "a writer that waits keeps later readers back"
    written = await model.join(waiting)
    assert written.token > max(one.token, other.token)
    (status,) = await locks.status("a")
    assert status.readers == []
    await written.release()
    await nothing_left(model, redis)


@every_model
async def test_names_in_both_modes_and_permits_are_one_request(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    with pytest.raises(pinyon.InvalidName, match='the limit of the permits "stripe" is not known here'):
        locks.lock("order:7", permits={"stripe": 2})
    stripe = locks.permits("stripe", limit=LIMIT)
    assert await stripe.available() == LIMIT
    async with locks.lock("order:7", write="order:8", read=("catalog",), permits={"stripe": 2}) as held:
        assert held.names == ("order:7", "order:8", "catalog")
        assert await stripe.available() == 1
        assert not await stripe.locked()
        assert await others.try_lock(permits={"stripe": (2, LIMIT)}) is None
        assert await others.try_lock("order:8") is None
        assert await others.try_lock("catalog") is None
        async with others.read("catalog"), others.permits("stripe", limit=LIMIT):
            assert await stripe.available() == 0
            assert await stripe.locked()
        assert await held.extend(600) is True
    async with others.permits("stripe", limit=LIMIT, n=LIMIT):
        assert await stripe.available() == 0
    await nothing_left(model, redis)


@every_model
async def test_nobody_is_beside_a_writer_and_permits_are_never_more(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    locks = [locks_on(redis), locks_on(redis, handler="pure")]
    inside = {"readers": 0, "writers": 0, "permits": 0}
    most = {"readers": 0, "permits": 0}

    async def worker(number: int) -> None:
        chance = random.Random(number)
        for _ in range(10):
            which = chance.choice(["readers", "readers", "writers", "permits"])
            of = locks[number % 2]
            terms = {"permits": {"limit": LIMIT}}.get(which, {})
            make = {"readers": of.read, "writers": of.write, "permits": of.permits}[which]
            async with make("a", **terms):
                inside[which] += 1
                assert inside["writers"] <= (0 if inside["readers"] else 1)
                assert inside["permits"] <= LIMIT
                most.update({kind: max(seen, inside[kind]) for kind, seen in most.items()})
                await model.sleep(0.002)
                inside[which] -= 1

    # How they meet is chance, so they work until both kinds have shared.
    for _ in range(20):
        for task in [model.spawn(worker(number)) for number in range(8)]:
            await model.join(task)
        if min(most.values()) > 1:
            return
    pytest.fail(f"they never shared: {most}")


@every_model
async def test_who_reads_cannot_write_and_who_writes_may_read(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis, reentrant=True)
    async with locks.read("a"), locks.read("a"):
        with pytest.raises(pinyon.AlreadyHeld):
            await locks.lock("a").acquire()
    async with locks.lock("a"), locks.read("a"):
        pass
    await nothing_left(model, redis)


@every_model
async def test_a_condition_and_a_ticket_need_names_alone(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    async with locks_on(redis).lock("a", read="b") as held:
        with pytest.raises(pinyon.Unsupported, match=r"a condition is not possible .* use a lock that writes"):
            await held.wait(1)
        with pytest.raises(pinyon.Unsupported, match="handing over is not possible with names to read"):
            await held.hand_over()


def test_arguments_that_make_no_sense_are_refused(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        for permits, said in [
            (["stripe"], r'permits must say how many of which pool, as in permits=\{"stripe": 2\}, not \[\'stripe\'\]'),
            ({"stripe": "2"}, r"permits\['stripe'\] must be a whole number of at least 1, not '2'"),
            ({"stripe": True}, "must be a whole number of at least 1, not True"),
            ({"stripe": (1, 2, 3)}, r"must be how many, or \(how many, limit\), not \(1, 2, 3\)"),
        ]:
            with pytest.raises(pinyon.UsageError, match=said):
                locks.lock("a", permits=permits)  # type: ignore[arg-type]
        with pytest.raises(pinyon.InvalidName, match='4 permits of "stripe": give 1 to 3'):
            locks.permits("stripe", limit=3, n=4)
        locks.permits("stripe", limit=3)
        for name, number in [("n", 0.5), ("n", True), ("limit", None), ("limit", -1), ("limit", 2**32)]:
            with pytest.raises(pinyon.UsageError, match=f"{name} must be a whole number of at least 1, not {number}"):
                locks.permits("stripe", **{"limit": 3, name: number})  # type: ignore[arg-type]
        with pytest.raises(pinyon.UsageError, match=r"permits\(\) has no argument 'blocking_timeout': pass timeout"):
            locks.permits("stripe", limit=3, blocking_timeout=4)  # type: ignore[call-arg]
        with pytest.raises(pinyon.UsageError, match="at_least is possible for names to write"):
            locks.lock("a", read="b", at_least=1)
        with pytest.raises(pinyon.InvalidName, match="at least one name"):
            locks.lock()


def test_several_servers_refuse_what_only_one_can_keep() -> None:
    places = [f"redis://127.0.0.1:{port}" for port in (1, 2, 3)]
    with pinyon.Locks(places, longest_ttl=0) as locks:
        for lock in (locks.read("a"), locks.permits("a", limit=1)):
            with pytest.raises(pinyon.Unsupported, match="not possible with a quorum of servers"):
                lock.acquire()


@every_model
async def test_whoever_gives_up_holds_no_permit(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    if not model.cancels:
        pytest.skip("a thread cannot be cancelled")
    locks = locks_on(redis)
    async with locks.permits("p", limit=1):
        waiting = model.spawn(locks.permits("p", limit=1, timeout=60).acquire())
        await model.until(lambda: queued(redis) == 1)
        model.cancel(waiting)
    async with locks.permits("p", limit=1, timeout=60):
        pass
    await nothing_left(model, redis)
