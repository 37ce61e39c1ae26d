"""Locks that clients of other libraries respect, against those libraries themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pottery
import pytest
import redis as redis_py
import redlock
from models import Model, every_model
from servers import Redis
from waiting import PATIENT

import pinyon
import pinyon.aio
from pinyon.compat.old_locks import OldKeys

LocksOn = Callable[..., Any]


class OfRedlock:
    key = "{name}"

    def __init__(self, *servers: Redis) -> None:
        self.manager = redlock.Redlock([{"host": each.host, "port": each.port} for each in servers], retry_count=1)
        self.held: Any = None

    def take(self, name: str) -> bool:
        self.held = self.manager.lock(name, 30_000)
        return bool(self.held)

    def release(self) -> None:
        self.manager.unlock(self.held)


class OfRedisPy:
    key = "{name}"

    def __init__(self, server: Redis) -> None:
        self.redis = redis_py.Redis(server.host, server.port)
        self.held: Any = None

    def take(self, name: str) -> bool:
        self.held = self.redis.lock(name, timeout=30)
        return bool(self.held.acquire(blocking=False))

    def release(self) -> None:
        self.held.release()


class OfPottery:
    key = "redlock:{name}"

    def __init__(self, *servers: Redis) -> None:
        self.masters = {redis_py.Redis(each.host, each.port) for each in servers}
        self.held: Any = None

    def take(self, name: str) -> bool:
        self.held = pottery.Redlock(key=name, masters=self.masters, auto_release_time=30)
        return bool(self.held.acquire(blocking=False))

    def release(self) -> None:
        self.held.release()


OLD = [OfRedlock, OfRedisPy, OfPottery]


def keys_on(model: Model, locks_on: LocksOn, server: Redis, key: str = "{name}", **settings: Any) -> Any:
    """Locks of both kinds, with methods that a test of every model can await."""
    locks = locks_on(server)
    return OldKeys(getattr(locks, "wrapped", locks), key=key, **settings)


async def holding(model: Model, both: Any) -> Any:
    """Acquire a lock of any model's."""
    acquired = both.acquire()
    return await acquired if model.name in ("asyncio", "uvloop") else acquired


async def outcome(model: Model, given: Any) -> Any:
    return await given if model.name in ("asyncio", "uvloop") else given


@pytest.mark.parametrize("kind", OLD)
@every_model
async def test_old_and_new_clients_exclude_each_other(
    model: Model, kind: Callable[..., Any], redis: Redis, locks_on: LocksOn
) -> None:
    old = kind(redis)
    keys = keys_on(model, locks_on, redis, kind.key)
    assert old.take("a")
    with pytest.raises(pinyon.LockTimeout, match="'a' is held by a client of another library"):
        await holding(model, keys.lock("a", timeout=2))
    assert await locks_on(redis).is_locked("a") is False
    old.release()
    held = await holding(model, keys.lock("a", ttl=30))
    assert 20 < held.remaining() <= 30
    assert held.token > 0
    assert not old.take("a")
    assert await locks_on(redis).try_lock("a") is None
    assert await outcome(model, held.release()) is True
    assert await outcome(model, held.release()) is False
    assert held.is_lost
    with pytest.raises(pinyon.LockLost):
        held.check()
    assert old.take("a")
    old.release()
    assert redis.left_behind() == set()


@every_model
async def test_who_waits_for_an_old_client_gets_the_lock(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    old, keys = OfRedlock(redis), keys_on(model, locks_on, redis)
    assert old.take("a")
    waiting = model.spawn(holding(model, keys.lock("a", timeout=60)))
    await model.until(lambda: redis.ask("EXISTS", "{pinyon}:l:a"))
    old.release()
    held = await model.join(waiting)
    assert await outcome(model, held.release()) is True


@every_model
async def test_a_lock_is_lost_with_its_old_key(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    keys = keys_on(model, locks_on, redis)
    held = await holding(model, keys.lock("a", ttl=3))
    await model.until(lambda: held.is_lost)
    assert await outcome(model, held.extend(10)) is False
    assert await outcome(model, held.release()) is False
    held = await holding(model, keys.lock("a", ttl=10))
    assert await outcome(model, held.extend(100)) is True
    assert redis.ask("PTTL", "a") > 90_000
    redis.ask("DEL", "a")
    assert await outcome(model, held.extend(100)) is False
    assert await outcome(model, held.release()) is False
    assert redis.left_behind() == set()


@pytest.fixture
def three(redis_with: Callable[..., Redis]) -> list[Redis]:
    return [redis_with() for _ in range(3)]


@every_model
async def test_old_clients_of_several_servers(model: Model, three: list[Redis], locks_on: LocksOn) -> None:
    own = [locks_on(each) for each in three]
    servers = [getattr(each, "wrapped", each) for each in own]
    keys, old = OldKeys(servers[0], servers=servers), OfRedlock(*three)
    assert old.take("a")
    with pytest.raises(pinyon.LockTimeout):
        await holding(model, keys.lock("a", timeout=2))
    old.release()
    three[2].ask("SET", "a", "of another")
    held = await holding(model, keys.lock("a"))
    assert not old.take("a")
    assert await outcome(model, held.release()) is True
    assert [each.ask("GET", "a") for each in three] == [None, None, b"of another"]
    three[1].ask("SET", "a", "of another")
    with pytest.raises(pinyon.LockTimeout):
        await holding(model, keys.lock("a", timeout=0))
    assert [each.ask("GET", "a") for each in three] == [None, b"of another", b"of another"]


def test_a_block_releases_and_tells_of_a_loss(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        keys = OldKeys(locks)
        with keys.lock("a") as held:
            assert redis.ask("EXISTS", "a") == 1
            held.check()
        assert redis.ask("EXISTS", "a") == 0
        with pytest.raises(KeyError), keys.lock("a"):
            raise KeyError
        with pytest.raises(pinyon.LockLost, match="'a' was lost before it was released"), keys.lock("a"):
            redis.ask("DEL", "a")
    assert redis.left_behind() == set()


def test_servers_that_fail_are_told(three: list[Redis]) -> None:
    locks = [pinyon.Locks(each.url, connect_timeout=1) for each in three]
    keys = OldKeys(locks[0], servers=locks)
    three[1].stop()
    with keys.lock("a"):
        pass
    three[2].stop()
    begun = time.monotonic()
    with pytest.raises(pinyon.Error), keys.lock("a", timeout=60):
        pass
    assert time.monotonic() - begun < 60
    assert three[0].left_behind() == set()


def test_mistakes(redis: Redis) -> None:
    locks = pinyon.Locks(redis.url, **PATIENT)
    with pytest.raises(pinyon.UsageError, match=r"key is the old client's key, with \{name\} for the lock's name"):
        OldKeys(locks, key="report")
    for servers in ([], [pinyon.aio.Locks(redis.url)]):
        with pytest.raises(pinyon.UsageError, match="servers is a list of Locks of the same kind"):
            OldKeys(locks, servers=servers)
    with pytest.raises(pinyon.UsageError, match="with asyncio, write: async with"):
        OldKeys(pinyon.aio.Locks(redis.url)).lock("a").__enter__()
