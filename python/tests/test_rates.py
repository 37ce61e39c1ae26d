"""Rates: permits that all processes share, in every concurrency model and with every handler."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from models import Model, every_model
from servers import Redis
from waiting import PATIENT

import pinyon
import pinyon.aio

LocksOn = Callable[..., Any]
every_handler = pytest.mark.parametrize("handler", ["script", "pure"])


@every_handler
@every_model
async def test_a_burst_is_allowed_and_then_it_says_when(
    model: Model, redis: Redis, locks_on: LocksOn, handler: str
) -> None:
    rate = locks_on(redis, handler=handler).rate("api:7", limit=3, per=3000, burst=2)
    assert (rate.name, rate.limit, rate.per, rate.burst) == ("api:7", 3, 3000, 2)
    first, second, third = [await rate.allow() for _ in range(3)]
    assert (first, second, bool(third)) == (first, second, False)
    assert (first.allowed, first.limit, first.remaining, first.retry_after) == (True, 3, 1, None)
    assert first
    assert second
    assert second.remaining == 0
    assert not third
    assert 900 < third.retry_after <= 1000
    assert 1900 < third.reset <= 2000
    both = await rate.allow(2)
    assert 1900 < both.retry_after <= 2000
    with pytest.raises(AttributeError):
        third.allowed = True
    assert redis.keys() == {b"{pinyon}:r:api:7"}


@every_model
async def test_handlers_names_and_settings_share_what_they_should(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    script, plain = locks_on(redis), locks_on(redis, handler="pure")
    settings = {"limit": 1, "per": timedelta(hours=1)}
    assert await script.rate("a", **settings).allow()
    assert not await plain.rate("a", **settings).allow()
    assert await plain.rate("b", **settings).allow()
    assert not await script.rate("b", **settings).allow()
    assert await locks_on(redis, namespace="other").rate("a", **settings).allow()
    # With a larger limit, what was taken counts by its time.
    assert await script.rate("a", limit=3, per=3600, burst=3).allow() is not None


@every_handler
@every_model
async def test_a_wait_ends_when_its_time_has_come_and_not_before(
    model: Model, redis: Redis, locks_on: LocksOn, handler: str
) -> None:
    rate = locks_on(redis, handler=handler).rate("a", limit=5, per=1, burst=1)
    begun = time.monotonic()
    for _ in range(4):
        assert await rate.wait(timeout=60)
    assert time.monotonic() - begun > 3 * 0.2 - 0.01


@every_model
async def test_a_wait_that_would_be_in_vain_fails_at_once_and_takes_nothing(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    rate = locks_on(redis, timeout=100).rate("a", limit=1, per=1000, burst=1)
    assert await rate.allow()
    for timeout in [0, 10, None]:
        with pytest.raises(pinyon.LockTimeout, match='the rate "a" does not allow it'):
            await rate.wait(timeout=timeout)
    refused = await rate.allow()
    assert 900 < refused.reset <= 1000


@every_model
async def test_waiters_are_served_together_with_others_at_work(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    rate = locks_on(redis).rate("a", limit=20, per=1, burst=1)
    ended: list[float] = []

    async def wait() -> None:
        await rate.wait(timeout=math.inf)
        ended.append(time.monotonic())

    begun = time.monotonic()
    tasks = [model.spawn(wait()) for _ in range(8)]
    for task in tasks:
        await model.join(task)
    assert len(ended) == 8
    for index, end in enumerate(sorted(ended)):
        assert end - begun >= index * 0.05 - 0.01


@every_model
async def test_what_makes_no_sense_is_refused_by_name(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis)
    for settings, said in [
        ({"limit": 0, "per": 1}, "limit must be from 1"),
        ({"limit": 1, "per": 0}, "per must be a positive number of seconds"),
        ({"limit": 1, "per": 1, "burst": 0}, "burst must be from 1"),
    ]:
        with pytest.raises(pinyon.UsageError, match=said):
            locks.rate("a", **settings)
    with pytest.raises(pinyon.UnsupportedType, match="limit must be a whole number"):
        locks.rate("a", limit=1.5, per=1)
    with pytest.raises(pinyon.InvalidName):
        locks.rate("", limit=1, per=1)
    rate = locks.rate("a", limit=10, per=1, burst=2)
    with pytest.raises(pinyon.UsageError, match="n is 3, but this rate never gives more than 2 at once"):
        await rate.allow(3)
    with pytest.raises(pinyon.UsageError, match="n must be at least 1, not 0"):
        await rate.wait(0)
    assert redis.keys() == set()


@every_model
async def test_a_check_without_a_server_fails_and_one_after_it_is_back_succeeds(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    rate = locks_on(own_redis, connect_timeout=1, command_timeout=1).rate("a", limit=10, per=1000)
    assert await rate.allow()
    own_redis.stop()
    with pytest.raises((pinyon.ConnectError, pinyon.ConnectionLost, pinyon.Timeout)):
        await rate.allow()
    own_redis.restart()

    async def is_back() -> Any:
        return await rate.allow()

    assert await model.eventually(is_back)


def test_a_check_is_one_command(own_redis: Redis) -> None:
    with pinyon.Locks(own_redis.url, **PATIENT) as locks:
        rate = locks.rate("a", limit=1000, per=1)
        rate.allow()

        def calls() -> int:
            stats = own_redis.ask("INFO", "commandstats")
            fields = [
                line for line in stats.decode().splitlines() if line.startswith(("cmdstat_fcall:", "cmdstat_eval"))
            ]
            return sum(int(field.split("calls=")[1].split(",")[0]) for field in fields)

        before = calls()
        for _ in range(10):
            rate.allow()
        assert calls() - before == 10


PROGRAM = """
import sys, pinyon
locks = pinyon.Locks(sys.argv[1], handler=sys.argv[2], timeout=60, command_timeout=30, connect_timeout=30)
rate = locks.rate("shared", limit=50, per=1, burst=10)
allowed = sum(bool(rate.allow()) for _ in range(150)) + sum(bool(rate.wait()) for _ in range(5))
print(allowed)
"""


def test_several_processes_never_get_more_than_the_burst_and_what_comes_in_time(redis: Redis) -> None:
    def now() -> float:
        seconds, micros = redis.ask("TIME")
        return int(seconds) + int(micros) / 1e6

    begun = now()
    command = [sys.executable, "-c", PROGRAM, redis.url]
    programs = [
        subprocess.Popen([*command, handler], stdout=subprocess.PIPE, text=True)
        for handler in ["script", "pure", "script", "pure"]
    ]
    allowed = [int(program.communicate(timeout=120)[0]) for program in programs]
    assert all(count >= 5 for count in allowed)
    assert sum(allowed) <= 10 + 50 * (now() - begun)


@every_handler
@every_model
async def test_callers_of_one_client_at_once_get_no_more_than_the_burst(
    model: Model, redis: Redis, locks_on: LocksOn, handler: str
) -> None:
    rate = locks_on(redis, handler=handler).rate("a", limit=4, per=1000)
    answers = await model.gather(rate.allow() for _ in range(12))
    assert sorted(answer.remaining for answer in answers if answer.allowed) == [0, 1, 2, 3]
