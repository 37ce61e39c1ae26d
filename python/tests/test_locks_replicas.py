"""Locks that count once replicas have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from locking import nothing_left, queued
from models import Model, every_model
from servers import Redis

import pinyon

LocksOn = Callable[..., Any]


@pytest.fixture
def pair() -> Iterator[tuple[Redis, Redis]]:
    """A primary, and its replica."""
    with (
        Redis("--repl-diskless-sync-delay", "0") as primary,
        Redis("--replicaof", primary.host, str(primary.port)) as replica,
    ):
        yield primary, replica


def has(replica: Redis, name: str) -> bool:
    return bool(replica.ask("EXISTS", f"{{pinyon}}:l:{name}"))


@every_model
@pytest.mark.parametrize("handler", ["script", "pure"])
async def test_what_is_acquired_is_on_the_replica(
    model: Model, pair: tuple[Redis, Redis], locks_on: LocksOn, handler: str
) -> None:
    primary, replica = pair
    await model.until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"))
    locks, others = (locks_on(primary, replicas=1, handler=handler) for _ in range(2))
    async with locks.lock("a", "b", timeout=60) as held:
        assert has(replica, "a")
        assert has(replica, "b")
        waiting = model.spawn(others.lock("b", timeout=60).acquire())
        await model.until(lambda: handler == "pure" or queued(primary) == 1)
        assert await others.try_lock("a") is None
    later = await model.join(waiting)
    assert has(replica, "b")
    assert later.token > held.token
    assert await later.release()
    await nothing_left(model, primary)


@every_model
async def test_a_replica_that_stands_still_leaves_nothing_locked(
    model: Model, pair: tuple[Redis, Redis], locks_on: LocksOn
) -> None:
    primary, replica = pair
    await model.until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"))
    locks = locks_on(primary, replicas=1)
    async with locks.lock("a", ttl=600, timeout=60):
        replica.pause()
        told = rf"{primary.address}.*only 0 of 1 replicas acknowledged the lock in time; it was released"
        with pytest.raises(pinyon.ServerError, match=told):
            await locks.lock("b", timeout=3).acquire()
        assert not await locks.is_locked("b")
        replica.resume()
    async with locks.lock("b", timeout=60):
        assert has(replica, "b")


@pytest.mark.parametrize("replicas", [-1, 1001])
def test_mistakes_in_the_number_of_replicas(replicas: int) -> None:
    with pytest.raises(pinyon.UsageError, match=f"replicas must be a whole number from 0 to 1000, not {replicas}"):
        pinyon.Locks(replicas=replicas)
