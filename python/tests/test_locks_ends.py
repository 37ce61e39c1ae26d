"""How locks end: jobs that run once, hand-overs, shutdown and the end of a program."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from locking import nothing_left
from models import Model, every_model, on_asyncio
from processes import what_it_prints
from servers import Redis
from waiting import PATIENT, wait_until

import pinyon
import pinyon.aio

#: Longer than any test.
LONG = 3600


@every_model
async def test_a_job_runs_once_per_period(model: Model, redis: Redis, locks_on: Any) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    async with locks.once("nightly", per=LONG) as held:
        assert held.token > 0
        async with others.once("nightly", per=LONG) as other:
            assert other is None
    for again in (locks, others):
        async with again.once("nightly", per=LONG) as held:
            assert held is None
    assert await locks.is_locked("nightly")
    assert redis.ask("PTTL", "{pinyon}:l:nightly") > (LONG - 600) * 1000
    async with others.once("hourly", per=0.001) as held:
        assert held is not None
    assert await others.force_release("nightly") == 1
    await nothing_left(model, redis)


@every_model
async def test_a_job_that_fails_may_run_again_at_once(model: Model, redis: Redis, locks_on: Any) -> None:
    locks = locks_on(redis)
    with pytest.raises(ZeroDivisionError):
        async with locks.once("nightly", per=LONG):
            raise ZeroDivisionError
    async with locks.once("nightly", per=LONG) as held:
        assert held is not None
        assert await held.release()
    assert await locks.is_locked("nightly")
    assert await locks.force_release("nightly") == 1
    await nothing_left(model, redis)


@every_model
async def test_a_job_that_has_lost_its_lock_is_told(model: Model, redis: Redis, locks_on: Any) -> None:
    locks = locks_on(redis)
    with pytest.raises(pinyon.LockLost):
        async with locks.once("nightly", per=LONG):
            assert await locks.force_release("nightly") == 1
    await nothing_left(model, redis)


def test_a_decorated_function_runs_once(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks:

        @locks.once("nightly", per=LONG)
        def nightly(fails: bool) -> str:
            if fails:
                raise ZeroDivisionError
            return "made"

        with pytest.raises(ZeroDivisionError):
            nightly(True)
        assert [nightly(False), nightly(False), nightly(True)] == ["made", None, None]


@on_asyncio
async def test_a_decorated_coroutine_function_runs_once(model: Model, redis: Redis) -> None:
    locks = pinyon.aio.Locks(redis.url, **PATIENT)

    @locks.once("nightly", per=LONG)
    async def nightly() -> str:
        return "made"

    assert await nightly() == "made"
    assert await nightly() is None
    locks.close()


def test_in_many_threads_at_once_one_runs_it(redis: Redis) -> None:
    ran: list[Any] = []
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        once = locks.once("nightly", per=LONG)

        def run() -> None:
            with once as held:
                if held:
                    ran.append(held)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(ran) == 1


@every_model
async def test_a_block_whose_lock_was_handed_over_ends_quietly(model: Model, redis: Redis, locks_on: Any) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    async with locks.lock("a", "\u00e9/", ttl=60) as held:
        ticket = await held.hand_over()
        assert held.is_lost
        assert not await held.release()
    assert await others.is_locked("a")
    async with others.adopt(ticket, ttl=60) as adopted:
        assert set(adopted.names) == {"a", "\u00e9/"}
        assert adopted.token > held.token
    assert not await locks.is_locked("a")
    with pytest.raises(pinyon.LockLost, match="ticket was used"):
        async with locks.adopt(ticket):
            pass
    await nothing_left(model, redis)


@every_model
async def test_plain_commands_do_the_same(model: Model, redis: Redis, locks_on: Any) -> None:
    locks, others = locks_on(redis, handler="pure"), locks_on(redis)
    async with locks.lock("a", "b", at_least=LONG):
        pass
    assert redis.ask("PTTL", "{pinyon}:l:b") > (LONG - 600) * 1000
    assert await locks.try_lock("a") is await others.try_lock("b") is None
    assert await locks.force_release("a", "b") == 2
    held = await others.lock("a", "b", timeout=60).acquire()
    adopted = await locks.adopt(await held.hand_over()).acquire()
    assert adopted.token > held.token
    again = await others.adopt(await adopted.hand_over()).acquire()
    assert again.token > adopted.token
    assert await again.release()
    await nothing_left(model, redis)


def test_what_is_no_ticket_is_refused(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks, pinyon.Locks(redis.url, namespace="other", **PATIENT) as others:
        ticket = locks.lock("a").acquire().hand_over()
        with pytest.raises(pinyon.UsageError, match="no ticket"):
            locks.adopt(ticket[:-2])
        with pytest.raises(pinyon.UsageError, match="namespace"):
            others.adopt(ticket)
        with pytest.raises(pinyon.UnsupportedType, match="a ticket is str"):
            locks.adopt(b"ticket")  # type: ignore[arg-type]
        with locks.adopt(ticket):
            pass


def test_a_ticket_carries_the_least_time(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        with locks.adopt(locks.lock("a", at_least=LONG).acquire().hand_over()):
            pass
        assert redis.ask("PTTL", "{pinyon}:l:a") > (LONG - 600) * 1000


@every_model
async def test_closing_releases_what_is_held_if_asked_to(model: Model, redis: Redis, locks_on: Any) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    held = [await locks.lock("a").acquire(), await locks.lock("b", at_least=LONG).acquire()]
    closed = locks.close(release=True)
    if closed is not None:
        await closed
    assert locks.is_closed
    assert all(lock.is_lost for lock in held)
    assert not await others.is_locked("a")
    assert await others.is_locked("b")
    assert await others.force_release("b") == 1


def test_all_are_released_in_whatever_thread_they_were_acquired(redis: Redis) -> None:
    told: list[Any] = []
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        kept: list[Any] = []
        thread = threading.Thread(target=lambda: kept.append(locks.lock("a", on_lost=told.append).acquire()))
        thread.start()
        thread.join(60)

        def block() -> None:
            with locks.lock("b") as held:
                assert locks.release_all(timeout=60) == 2
                assert held.is_lost

        with pytest.raises(pinyon.LockLost, match="released with all"):
            block()
        wait_until(lambda: told == kept)
        assert locks.release_all() == 0
        assert not locks.is_locked("a", "b")


def test_a_server_that_is_away_is_not_waited_for_longer(own_redis: Redis) -> None:
    with pinyon.Locks(own_redis.url, command_timeout=60, connect_timeout=60) as locks:
        held = locks.lock("a", ttl=LONG).acquire()
        own_redis.pause()
        try:
            assert locks.release_all(timeout=0.1) == 0
        finally:
            own_redis.resume()
        wait_until(lambda: not own_redis.left_behind())
        assert held.is_lost


ENDING = """
import sys, pinyon
locks = pinyon.Locks(sys.argv[1], ttl=3600, command_timeout=60, connect_timeout=60)
idle = pinyon.Locks("redis://127.0.0.1:1")
held = locks.lock("a").acquire()
kept = locks.lock("b", at_least=3600).acquire()
print("ends")
"""


@pytest.mark.parametrize("how", ["", "sys.exit(0)", "raise SystemExit"])
def test_the_end_of_a_program_releases_what_it_holds(redis: Redis, how: str) -> None:
    assert what_it_prints(ENDING + how, redis.url) == "ends"
    assert redis.left_behind() == {b"{pinyon}:l:b"}


def test_a_forked_child_leaves_its_parents_locks_alone(redis: Redis) -> None:
    program = """
import os, sys, pinyon
locks = pinyon.Locks(sys.argv[1], ttl=3600, command_timeout=60, connect_timeout=60)
held = locks.lock("a").acquire()
child = os.fork()
if not child:
    locks.release_all()
    sys.exit(0)
os.waitpid(child, 0)
held.check()
print(locks.is_locked("a"))
"""
    assert what_it_prints(program, redis.url) == "True"
    assert redis.left_behind() == set()
