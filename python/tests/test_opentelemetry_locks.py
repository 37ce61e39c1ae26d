"""The export of locks to OpenTelemetry: metrics, and spans of operations and of the time that a lock is held."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from locking import queued, renewed
from models import Model, every_model, on_asyncio
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from pinyon_verify.ports import free_port
from servers import Redis
from telemetry import Telemetry, telemetry
from test_events import Watcher
from test_fork import in_child
from waiting import GIVES_UP

import pinyon
import pinyon.opentelemetry

LocksOn = Callable[..., Any]
SECRET = "secret-name"

__all__ = ["telemetry"]


def names(spans: list[ReadableSpan]) -> list[str]:
    return [span.name.partition(" ")[0] for span in spans]


def of(span: ReadableSpan, attribute: str) -> Any:
    return (span.attributes or {}).get(attribute)


def holds(telemetry: Telemetry) -> dict[str, int]:
    """How many locks were held, by how that ended."""
    points = telemetry.points("pinyon.locks.hold.duration")
    return {point.attributes["pinyon.outcome"]: point.count for point in points}


@every_model
async def test_a_block_makes_spans(model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry) -> None:
    locks = telemetry.traced(locks_on(own_redis))
    async with locks.lock(SECRET) as held:
        token = held.token
    acquire, release, hold = telemetry.spans()
    server = {"db.system.name": "redis", "server.address": own_redis.host, "server.port": own_redis.port}
    assert acquire.name == f"acquire {own_redis.address}"
    assert acquire.attributes == {**server, "db.operation.name": "acquire", "pinyon.outcome": "acquired"}
    assert (acquire.kind, release.kind, hold.kind) == (SpanKind.CLIENT, SpanKind.CLIENT, SpanKind.INTERNAL)
    assert release.attributes == {**server, "db.operation.name": "release"}
    assert hold.name == f"hold {own_redis.address}"
    assert hold.attributes == {**server, "pinyon.lock.token": token, "pinyon.outcome": "released"}
    assert hold.start_time is not None
    assert acquire.end_time is not None
    assert hold.start_time >= acquire.end_time
    assert "secret" not in "".join(span.to_json() for span in telemetry.spans())
    assert holds(telemetry) == {"released": 1}
    durations = telemetry.points("db.client.operation.duration")
    assert {point.attributes["db.operation.name"]: point.count for point in durations} == {"acquire": 1, "release": 1}


@every_model
async def test_each_way_to_use_a_lock_is_traced(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    plain = locks_on(own_redis)
    locks = telemetry.traced(plain)
    held = await locks.lock("a").acquire()
    assert await held.extend(20) is True
    assert await held.notify() == 0
    assert await held.wait(0.01) is False
    assert await locks.try_lock("a") is None
    assert await locks.is_locked("a") is True
    assert (await locks.status("a"))[0].token == held.token
    assert await locks.waiting("a") == 0
    assert await plain.try_lock("a") is None
    assert await locks.execute("EXISTS", "a") == 0
    assert await held.release() is True
    taken = await locks.try_lock("a")
    assert await locks.lock("a").locked() is True
    assert await taken.release() is True
    assert await locks.owner("a") is None
    spans = telemetry.spans()
    assert names(spans) == [
        *("acquire", "extend", "notify", "wait", "acquire", "is_locked", "status", "waiting", "execute"),
        *("release", "hold", "acquire", "is_locked", "release", "hold", "owner"),
    ]
    assert [of(span, "pinyon.outcome") for span in spans if span.name.startswith("acquire")] == [
        *("acquired", "busy", "acquired")
    ]
    assert holds(telemetry) == {"released": 2}


@every_model
async def test_functions_with_locks_are_traced(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    locks = telemetry.traced(locks_on(own_redis))
    if hasattr(locks, "wrapped"):
        locks.wrapped.lock("a")(int)()
        locks.wrapped.synchronized("b")(lambda: None)()
    else:

        async def function() -> None:
            pass

        await locks.lock("a")(function)()
        await locks.synchronized("b")(function)()
    assert names(telemetry.spans()) == ["acquire", "release", "hold"] * 2


@every_model
async def test_a_failure_is_in_its_span_and_says_no_names(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    locks, others = telemetry.traced(locks_on(own_redis)), locks_on(own_redis)
    async with others.lock(SECRET):
        with pytest.raises(pinyon.LockTimeout, match=SECRET):
            await locks.lock(SECRET, timeout=2).acquire()
    away = telemetry.traced(locks_on(f"redis://127.0.0.1:{free_port()}", command_timeout=GIVES_UP))
    with pytest.raises(pinyon.ConnectError):
        await away.try_lock(SECRET)
    late, failed = telemetry.spans()
    assert of(late, "error.type") == "pinyon.errors.LockTimeout"
    assert of(failed, "error.type") == "pinyon.errors.ConnectError"
    assert late.status.status_code is failed.status.status_code is StatusCode.ERROR
    assert SECRET not in late.to_json() + failed.to_json()
    assert holds(telemetry) == {}


@every_model
async def test_permits_of_rates_have_spans(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    rate = telemetry.traced(locks_on(own_redis)).rate(SECRET, limit=1, per=1000)
    assert await rate.allow()
    with pytest.raises(pinyon.LockTimeout):
        await rate.wait(timeout=1)
    allowed, waited = telemetry.spans()
    assert (of(allowed, "db.operation.name"), of(waited, "db.operation.name")) == ("allow", "wait_for_permits")
    assert of(waited, "error.type") == "pinyon.errors.LockTimeout"
    assert SECRET not in allowed.to_json()


@every_model
async def test_a_lock_that_is_lost_is_held_no_longer(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    locks, others = telemetry.traced(locks_on(own_redis)), locks_on(own_redis)
    held = await locks.lock("a").acquire()
    assert await others.force_release("a") == 1
    await model.until(lambda: holds(telemetry) == {"lost": 1})
    (hold,) = (span for span in telemetry.spans() if span.name.startswith("hold"))
    assert of(hold, "error.type") == "pinyon.errors.LockLost"
    assert hold.status.status_code is StatusCode.ERROR
    assert await held.release() is False
    assert holds(telemetry) == {"lost": 1}
    with pytest.raises(pinyon.LockLost):
        async with locks.lock("a"):
            assert await others.force_release("a") == 1
    assert holds(telemetry) == {"lost": 2}


@every_model
async def test_a_block_treats_exceptions_as_without_traces(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    locks, others = telemetry.traced(locks_on(own_redis)), locks_on(own_redis)
    with pytest.raises(LookupError):
        async with locks.lock("a"):
            raise LookupError

    async def lose_and_fail() -> None:
        async with locks.lock("a"):
            assert await others.force_release("a") == 1
            raise LookupError

    with pytest.raises(LookupError):
        await lose_and_fail()
    async with locks.lock("a") as held:
        assert await held.release() is True
    assert holds(telemetry) == {"released": 2, "lost": 1}


@every_model
async def test_a_lock_that_nothing_refers_to_is_dropped(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    locks = telemetry.traced(locks_on(own_redis))
    held = await locks.try_lock("a")
    assert holds(telemetry) == {}
    del held

    def dropped() -> bool:
        gc.collect()
        return holds(telemetry) == {"dropped": 1}

    await model.until(dropped)


@every_model
async def test_the_locks_themselves_go_on_without_spans(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    watcher = Watcher()
    locks = locks_on(own_redis, on_event=watcher, ttl=6)
    traced = telemetry.traced(locks)
    async with locks.lock("a"):
        assert await traced.is_locked("a")
    assert names(telemetry.spans()) == ["is_locked"]
    del locks
    gc.collect()
    async with traced.lock("a") as held:
        await renewed(model, held)
    await watcher.has(model, "connected")
    assert traced.metrics().acquired == 2
    assert repr(traced).startswith(f"<pinyon.{'aio.' if 'asyncio' in model.name or 'uvloop' in model.name else ''}")


@on_asyncio
async def test_spans_have_the_callers_span_above_them(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    locks = telemetry.traced(locks_on(own_redis))
    tracer = telemetry.tracing.get_tracer("test")
    with tracer.start_as_current_span("request"):
        async with locks.lock("a"):
            pass
    *spans, request = telemetry.spans()
    assert names(spans) == ["acquire", "release", "hold"]
    assert {span.parent.span_id if span.parent else None for span in spans} == {request.get_span_context().span_id}


@on_asyncio
async def test_a_cancelled_wait_says_so(
    model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry
) -> None:
    locks, others = telemetry.traced(locks_on(own_redis)), locks_on(own_redis)
    async with others.lock("a"):
        waiting = model.spawn(locks.lock("a").acquire())
        await model.until(lambda: queued(own_redis) == 1)
        model.cancel(waiting)
        await model.until(lambda: telemetry.spans())
    (acquire,) = telemetry.spans()
    assert of(acquire, "error.type") == "cancelled"
    assert holds(telemetry) == {}


def test_a_forked_child_tells_nothing_of_its_parents_locks(own_redis: Redis, telemetry: Telemetry) -> None:
    locks = telemetry.traced(pinyon.Locks(own_redis.url))
    held = locks.lock("a").acquire()

    def drop() -> None:
        nonlocal held
        del held
        gc.collect()
        assert holds(telemetry) == {}

    in_child(drop)
    assert held.release() is True
    assert holds(telemetry) == {"released": 1}


@every_model
async def test_what_is_counted_is_told(model: Model, own_redis: Redis, locks_on: LocksOn, telemetry: Telemetry) -> None:
    locks, others = locks_on(own_redis, ttl=6), locks_on(own_redis)
    for told in (locks, locks, telemetry.traced(locks), others):
        telemetry.instrument(told)
    async with locks.lock("a") as held:
        assert await others.try_lock("a") is None
        with pytest.raises(pinyon.LockTimeout):
            await others.lock("a", timeout=2).acquire()
        await renewed(model, held)
    held = await locks.lock("a").acquire()
    assert await others.force_release("a") == 1
    await model.until(lambda: locks.metrics().lost == {"forced": 1})

    def values(name: str, attribute: str = "server.port") -> dict[Any, float]:
        return {key: value for (key,), value in telemetry.values(f"pinyon.locks.{name}", attribute).items()}

    assert values("attempts", "pinyon.outcome") == {"acquired": 2, "busy": 1, "timeout": 1}
    assert values("queued") == values("released") == {own_redis.port: 1}
    assert values("lost", "pinyon.reason") == {"forced": 1}
    assert values("errors", "error.type") == {"pinyon.errors.LockTimeout": 1}
    renewals = values("renewals", "pinyon.outcome")
    assert (renewals["renewed"] >= 1, renewals["refused"]) == (True, 0)
    assert values("connects") == {own_redis.port: 2}
    assert values("disconnects") == values("switches") == {own_redis.port: 0}
    buckets = values("acquire.duration.bucket", "le")
    assert buckets["+Inf"] == buckets["60"] == 2
    assert values("acquire.duration.sum")[own_redis.port] > 0
    assert set(telemetry.values("pinyon.locks.connects", "db.system.name", "server.address")) == {
        ("redis", own_redis.host)
    }
    assert await held.release() is False


def test_several_servers_are_one_name(telemetry: Telemetry) -> None:
    places = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    locks = pinyon.Locks([f"redis://{place}" for place in places])
    telemetry.instrument(locks)
    assert set(telemetry.values("pinyon.locks.connects", "server.address", "server.port")) == {
        (", ".join(places), None)
    }
    del locks
    assert telemetry.points("pinyon.locks.connects") == []


def test_what_are_no_locks_is_refused() -> None:
    for tell in (pinyon.opentelemetry.traced, pinyon.opentelemetry.instrument):
        with pytest.raises(pinyon.UsageError, match=r"a client or locks of pinyon.* not Lock"):
            tell(pinyon.Locks().lock("a"))
