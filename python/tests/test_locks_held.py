"""What a holder can rely on: renewal, a report of the loss, and errors that hide nothing."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from locking import nothing_left, outlived, queued
from logs import about
from models import Model, every_model
from servers import Redis

import pinyon

LocksOn = Callable[..., Any]


@every_model
async def test_renewed_while_the_body_sleeps(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    lost: list[Any] = []
    many = [f"name {number}" for number in range(150)]
    async with locks.lock("a", "b", ttl=6, on_lost=lost.append) as held:
        tasks = [model.spawn(locks.lock(name, ttl=6.6).acquire()) for name in many]
        others_held = [await model.join(task) for task in tasks]
        end = time.monotonic() + 7.5
        while time.monotonic() < end:
            held.check()
            assert await others.try_lock("b") is None
            await model.sleep(0.05)
    assert lost == []
    assert not any(other.is_lost for other in others_held)
    assert all([await other.release() for other in others_held])
    await nothing_left(model, redis)


async def delete(redis: Redis, others: Any) -> None:
    redis.ask("DEL", "{pinyon}:l:a")


async def flush(redis: Redis, others: Any) -> None:
    redis.ask("FLUSHALL")


async def force(redis: Redis, others: Any) -> None:
    assert await others.force_release("a", "c") == 1


LOSSES = {"DEL": delete, "FLUSHALL": flush, "force_release": force}
Lose = Callable[[Redis, Any], Awaitable[None]]
every_loss = pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)


@every_loss
@every_model
async def test_a_lost_lock_is_told_of(model: Model, lose: Lose, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    lost: list[Any] = []

    async def work() -> None:
        async with locks.lock("a", "b", ttl=3, on_lost=lost.append) as held:
            held.on_lost(lost.append)
            await lose(redis, others)
            await model.until(lambda: len(lost) == 2)
            assert held.is_lost
            with pytest.raises(pinyon.LockLost):
                held.check()
            held.on_lost(lost.append)
            assert len(lost) == 3, "it is lost already: told at once"
            assert await held.extend(5) is False
            for method in (held.wait, held.notify):
                with pytest.raises(pinyon.LockLost):
                    await method()
            async with others.lock("a", timeout=60) as other:
                assert other.token > held.token

    with pytest.raises(pinyon.LockLost, match="was lost before it was released"):
        await work()
    async with locks.lock("a", "b"):
        pass
    await nothing_left(model, redis)


@every_model
async def test_a_loss_does_not_hide_the_bodys_own_error(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis)

    async def work(error: type[Exception] | None) -> None:
        async with locks.lock("a"):
            redis.ask("DEL", "{pinyon}:l:a")
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError):
        await work(ZeroDivisionError)
    with pytest.raises(pinyon.LockLost):
        await work(None)
    await nothing_left(model, redis)


@every_model
async def test_a_callback_that_raises_disturbs_nothing(
    model: Model, redis: Redis, locks_on: LocksOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)
    locks = locks_on(redis)
    told: list[Any] = []
    held = await locks.lock("a", on_lost=lambda held: 1 / 0).acquire()
    other = await locks.try_lock("b", on_lost=told.append)
    assert await locks.force_release("a", "b") == 2
    await model.until(lambda: told and unraisable)
    assert not await held.release()
    assert not await other.release()
    async with locks.lock("a", "b"):
        pass


@every_model
async def test_force_release_with_a_token_takes_that_holders_only(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    held = await locks.lock("a").acquire()
    assert await others.force_release("a", token=held.token - 1) == 0
    held.check()
    assert await others.force_release("a", token=held.token) == 1
    assert await others.force_release("a") == 0
    assert await held.release() is False
    await nothing_left(model, redis)


@every_model
async def test_extending(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis)
    held = await locks.lock("a", "b", ttl=50, renew=False).acquire()
    assert await held.extend(600) is True
    assert 500 < held.remaining() < 600
    assert 500_000 < redis.ask("PTTL", "{pinyon}:l:b") <= 600_000
    assert await held.extend(100) is True
    assert held.remaining() < 100
    for ttl in (0, -1, float("nan"), 0.0001):
        with pytest.raises(pinyon.UsageError, match="ttl"):
            await held.extend(ttl)
    held.check()
    assert await held.release()
    assert await held.extend(60) is False
    await nothing_left(model, redis)


@every_model
async def test_given_back_inside_its_block(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    """The end of the block has nothing to release, and does not treat that as a loss."""
    locks = locks_on(redis)
    async with locks.lock("a") as held:
        assert await held.release()
        assert await locks.is_locked("a") is False
    await nothing_left(model, redis)


@every_model
async def test_what_is_held_keeps_its_locks_alive(model: Model, redis: Redis) -> None:
    held = await model.locks(redis.url, ttl=15, command_timeout=30, connect_timeout=30).lock("a").acquire()
    gc.collect()
    await outlived(model, held, 15)
    assert await held.release()
    await nothing_left(model, redis)


@every_model
async def test_a_refused_renewal_is_warned_of_and_the_loss_told(
    model: Model, own_redis: Redis, locks_on: LocksOn, caplog: pytest.LogCaptureFixture
) -> None:
    """As when permissions are removed while a lock is held."""
    lost: list[Any] = []
    locks = locks_on(own_redis)
    held = await locks.lock("a", ttl=6, on_lost=lost.append).acquire()
    own_redis.ask("ACL", "SETUSER", "default", "resetkeys", "~nothing:*")
    await model.until(lambda: about(own_redis, caplog))
    assert not held.is_lost, "told of before it is lost"
    await model.until(lambda: lost)
    (warning,) = about(own_redis, caplog)
    assert warning.name == "pinyon.locks"
    assert "does not renew locks" in warning.getMessage()
    assert [each.token for each in lost] == [held.token]
    with pytest.raises(pinyon.LockLost):
        held.check()


@every_model
async def test_a_refusal_that_ends_in_time_loses_nothing(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    held = await locks_on(own_redis).lock("a", ttl=6).acquire()
    own_redis.ask("ACL", "SETUSER", "default", "resetkeys", "~nothing:*")
    await model.until(lambda: own_redis.ask("ACL", "LOG"))
    own_redis.ask("ACL", "SETUSER", "default", "allkeys")
    await model.until(lambda: held.remaining() > 4.3)
    assert await held.release()


@every_model
async def test_closed_locks_hold_nothing_any_more(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(redis), locks_on(redis)
    lost: list[Any] = []
    held = await locks.lock("a", ttl=6, on_lost=lost.append).acquire()
    kept_away = await others.lock("away").acquire()
    waiting = model.spawn(locks.lock("away", timeout=60).acquire())
    await model.until(lambda: queued(redis) == 1)
    locks.close()
    with pytest.raises(pinyon.ConnectionLost, match="closed"):
        await model.join(waiting)
    assert held.is_lost
    assert held.remaining() == 0
    with pytest.raises(pinyon.LockLost, match="its client was closed"):
        held.check()
    assert await held.release() is False
    assert await held.extend(5) is False
    for method in (held.wait, held.notify):
        with pytest.raises(pinyon.LockLost):
            await method()
    with pytest.raises(pinyon.Closed):
        await locks.lock("b").acquire()
    assert await others.try_lock("a") is None, "whoever worked under it still is protected by its ttl"
    async with others.lock("a", timeout=60):
        pass
    assert await kept_away.release()
    assert lost == []
    await nothing_left(model, redis)


@every_model
async def test_how_long_it_is_held(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    """By the server's clock, with and without renewal, and with all handlers."""
    locks, plain = locks_on(redis), locks_on(redis, handler="pure")
    begun = time.monotonic()
    held = [await locks.lock("renewed", "too", ttl=6).acquire(), await locks.try_lock("not", renew=False)]
    unknown = await plain.lock("unknown").acquire()
    await model.sleep(1)
    for asked in (locks, plain):
        *known, last = await asked.status("renewed", "too", "not", "unknown")
        passed = time.monotonic() - begun
        assert all(1 <= status.age < passed + 0.1 for status in known), known
        assert (last.age, last.token) == (None, None)
    assert await held[0].extend(60)
    (status,) = await locks.status("too")
    assert 1 <= status.age < 60
    assert all([await each.release() for each in (*held, unknown)])
    await nothing_left(model, redis)


@every_model
async def test_who_only_looks_changes_nothing(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    for handler in ("script", "pure"):
        locks = locks_on(redis, handler=handler)
        assert not await locks.is_locked("a")
        assert await locks.status("a")
        assert await locks.execute("PING")
        assert redis.keys() == set()
    assert await locks_on(redis).force_release("a") == 0
