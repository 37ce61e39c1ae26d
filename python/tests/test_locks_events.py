"""The events and metrics of locks, in every concurrency model."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from locking import queued
from logs import about
from models import Model, every_model
from pinyon_verify.ports import free_port
from servers import Redis
from test_events import Watcher
from test_fork import in_child
from test_locks_sentinels import Watched, watched
from waiting import PATIENT, wait_until

import pinyon

LocksOn = Callable[..., Any]

__all__ = ["watched"]


async def take(locks: Any, name: str) -> None:
    with contextlib.suppress(pinyon.Error):
        held = await locks.try_lock(name)
        if held:
            await held.release()


@every_model
async def test_a_server_is_lost_and_found(
    model: Model, own_redis: Redis, locks_on: LocksOn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pinyon.locks")
    watcher = Watcher()
    # Those who ask while the server is away wait this long.
    locks = locks_on(own_redis, on_event=watcher, command_timeout=2)
    await use_until(model, locks, watcher, "connected")
    connected = await watcher.has(model, "connected")
    assert (connected.server, connected.level, connected.error) == (own_redis.address, "debug", None)
    own_redis.stop()
    await use_until(model, locks, watcher, "down")
    lost, down = await watcher.has(model, "disconnected"), await watcher.has(model, "down")
    assert (lost.server, lost.level) == (own_redis.address, "info")
    assert isinstance(lost.error, pinyon.ConnectionLost)
    assert (down.server, down.level) == (own_redis.address, "warning")
    assert isinstance(down.error, pinyon.ConnectError)
    assert down.line.startswith(f"{own_redis.address} cannot be used: cannot connect")
    own_redis.restart()
    await use_until(model, locks, watcher, "up")
    up = await watcher.has(model, "up")
    assert up.duration is not None
    assert up.duration > 0
    assert [event.kind for event in watcher.events] == ["connected", "disconnected", "down", "up"]
    logged = about(own_redis, caplog)
    assert [record.pinyon_event for record in logged] == watcher.events
    assert {record.name for record in logged} == {"pinyon.locks"}
    metrics = locks.metrics()
    assert (metrics.connects, metrics.disconnects, metrics.switches) == (2, 1, 0)


async def use_until(model: Model, locks: Any, watcher: Watcher, kind: str) -> None:
    async def has_come() -> bool:
        await take(locks, "a")
        return bool(watcher.of(kind))

    await model.until(has_come)


@every_model
async def test_a_switch_of_the_primary_and_a_sentinel_that_goes_and_comes(
    model: Model, watched: Callable[..., Watched], locks_on: LocksOn
) -> None:
    service = watched()
    await model.until(lambda: b"master_link_status:up" in service.replica.ask("INFO", "replication"))
    watcher = Watcher()
    locks = locks_on(service.url, on_event=watcher)
    held = await locks.lock("a", ttl=60, timeout=60).acquire()
    await model.until(service.fail_over)
    switched = await watcher.has(model, "switched")
    assert (switched.previous, switched.server) == (service.primary.address, service.replica.address)
    assert (switched.level, switched.error) == ("warning", None)
    assert locks.metrics().switches == 1
    service.sentinels[0].stop()
    gone = await watcher.has(model, "sentinel_down")
    assert gone.server == service.sentinels[0].address
    assert isinstance(gone.error, pinyon.Error)
    service.sentinels[0].restart()
    back = await watcher.has(model, "sentinel_up")
    assert (back.server, back.line) == (gone.server, f"the Sentinel {gone.server} can be asked again")
    assert await held.release() in (True, False)


@every_model
async def test_other_warnings_are_events_too(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    own_redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    watcher, others = Watcher(), Watcher()
    locks, other = locks_on(own_redis, on_event=watcher), locks_on(own_redis, on_event=others)
    await take(locks, "a")
    event = await watcher.has(model, "warning")
    assert "maxmemory-policy is allkeys-lru" in event.line
    assert (event.server, event.level) == (own_redis.address, "warning")
    assert others.events == []
    await take(other, "a")
    await others.has(model, "warning")


@every_model
async def test_what_on_event_raises_is_reported_and_harms_nothing(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    def fail(event: pinyon.Event) -> None:
        raise LookupError(event.kind)

    locks = locks_on(own_redis, on_event=fail)
    with model.reports() as reported:
        for _ in range(3):
            assert await (await locks.try_lock("a")).release() is True
        await model.until(lambda: bool(reported))
    assert {(type(error), str(error)) for error in reported} == {(LookupError, "connected")}


def test_an_event_needs_a_callable() -> None:
    with pytest.raises(pinyon.UnsupportedType, match="on_event is called with each event; int is not callable"):
        pinyon.Locks(on_event=1)  # type: ignore[arg-type]


def test_a_client_that_hears_of_itself_is_collected(own_redis: Redis) -> None:
    def use() -> weakref.ref[pinyon.Locks]:
        heard = []
        locks = pinyon.Locks(
            own_redis.url, on_event=lambda event: heard.append(event if locks.prefix else None), **PATIENT
        )
        assert locks.is_locked("a") is False
        wait_until(lambda: heard)
        return weakref.ref(locks)

    gone = use()

    def is_gone() -> bool:
        gc.collect()
        return gone() is None

    wait_until(is_gone)


@every_model
async def test_locks_are_counted(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(own_redis, ttl=6), locks_on(own_redis)
    assert locks.metrics() == pinyon.LockMetrics()
    held = await locks.lock("a", "b").acquire()
    assert await others.try_lock("a") is None
    with pytest.raises(pinyon.LockTimeout):
        await others.lock("b", timeout=2).acquire()
    await model.until(lambda: locks.metrics().renewals > 0)
    assert await held.release() is True
    assert await held.release() is False
    await locks.lock("a").acquire()
    assert await others.force_release("a") == 1
    await model.until(lambda: locks.metrics().lost == {"forced": 1})
    counted, of_others = locks.metrics(), others.metrics()
    assert (counted.acquired, counted.released, counted.queued, counted.timeouts) == (2, 1, 0, 0)
    assert (of_others.acquired, of_others.busy, of_others.queued, of_others.timeouts) == (0, 1, 1, 1)
    assert (of_others.errors, of_others.lost) == ({"LockTimeout": 1}, {})
    assert counted.waits.count == 2
    assert 0 < counted.waits.percentile(50) < 60
    assert counted.renewals_refused == 0


@every_model
async def test_waiting_is_measured(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(own_redis), locks_on(own_redis)
    held = await others.lock("a").acquire()
    waiting = model.spawn(locks.lock("a", timeout=60).acquire())
    await model.until(lambda: queued(own_redis) == 1)
    await model.sleep(0.2)
    assert await held.release() is True
    later = await model.join(waiting)
    metrics = locks.metrics()
    assert (metrics.queued, metrics.acquired) == (1, 1)
    assert metrics.waits.percentile(0) > 0.1
    assert await later.release() is True


@every_model
async def test_hash_tags_count_together(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(own_redis, hash_tags="names")
    for name in ("{a}", "{b}", "c"):
        await take(locks, name)
    assert (locks.metrics().acquired, locks.metrics().released, locks.metrics().connects) == (3, 3, 3)


def test_a_child_counts_from_zero(own_redis: Redis) -> None:
    locks = pinyon.Locks(own_redis.url, **PATIENT)
    with locks.lock("a"):
        pass

    def count() -> None:
        assert locks.metrics() == pinyon.LockMetrics()
        with locks.lock("a"):
            assert locks.metrics().acquired == 1

    in_child(count)
    assert locks.metrics().acquired == 1


def test_metrics_are_values() -> None:
    locks = pinyon.Locks(f"redis://127.0.0.1:{free_port()}")
    with pytest.raises(pinyon.ConnectError):
        locks.try_lock("a")
    metrics = locks.metrics()
    assert metrics.errors == {"ConnectError": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        metrics.acquired = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(metrics)) == metrics
