"""The export to OpenTelemetry: metrics, and a span for each operation of a traced client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from models import Model, every_model, on_asyncio
from opentelemetry.trace import SpanKind, StatusCode
from pinyon_verify.ports import free_port
from servers import Memcached
from telemetry import Telemetry, telemetry
from test_migration import migrating

import pinyon
import pinyon.opentelemetry
from pinyon._calls import CALLS
from pinyon._figures.figure import address

__all__ = ["telemetry"]

Connect = Callable[..., Any]
SECRET = "secret-key"


@every_model
async def test_an_operation_makes_a_span(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    cache = telemetry.traced(connect(server))
    assert await cache.set(SECRET, "secret-value", ttl=60)
    assert await cache.get(SECRET) == "secret-value"
    assert await cache.get_many(iter([SECRET, "other"])) == {SECRET: "secret-value"}
    store, get, many = telemetry.spans()
    assert store.name == f"set {server.address}"
    assert store.kind is SpanKind.CLIENT
    assert store.attributes == {
        "db.system.name": "memcached",
        "db.operation.name": "set",
        "server.address": server.host,
        "server.port": server.port,
    }
    assert (get.attributes or {})["db.operation.name"] == "get"
    assert many.attributes == {
        "db.system.name": "memcached",
        "db.operation.name": "BATCH get",
        "db.operation.batch.size": 2,
    }
    assert get.end_time is not None
    assert "secret" not in "".join(span.to_json() for span in telemetry.spans())


def test_no_operation_is_without_a_span() -> None:
    view = pinyon.opentelemetry.traced(pinyon.Client("127.0.0.1:1"))
    assert vars(type(view)).keys() >= CALLS.keys()


def test_a_client_that_is_made_of_two_is_refused() -> None:
    both = pinyon.migrating(pinyon.Client("127.0.0.1:1"), pinyon.Client("127.0.0.1:2"))
    for tell in (pinyon.opentelemetry.traced, pinyon.opentelemetry.instrument):
        with pytest.raises(pinyon.UsageError, match="of a migrating client its old and its new one"):
            tell(both)


@every_model
async def test_a_migrating_client_of_traced_clients_makes_spans(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    old, new = (telemetry.traced(connect(server, namespace=namespace)) for namespace in ("old:", "new:"))
    await old.set("key", 7)
    both = migrating(old, new).using(on_failure="miss")
    assert await both.get("key") == 7
    assert await both.get_many(["key", "other"]) == {"key": 7}
    assert await both.delete("key") is True
    names = [(span.attributes or {})["db.operation.name"] for span in telemetry.spans()]
    assert names == ["set", "get", "BATCH get", "delete"]


@every_model
async def test_a_value_that_is_made_has_a_span_for_each_request(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    cache = telemetry.traced(connect(server))
    for _ in range(2):
        assert await cache.get_or_set(SECRET, lambda: "made", 60) == "made"
    with pytest.raises(LookupError):
        await cache.get_or_set("other", {}.popitem, 60)
    names = [span.name.partition(" ")[0] for span in telemetry.spans()]
    assert names == ["lease", "cas", "lease", "lease", "give_back"]


@every_model
async def test_values_that_are_made_together_have_a_span_for_each_step(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    cache = telemetry.traced(connect(server))
    await cache.get_or_set_many([SECRET, "left-out", "third"], lambda keys: dict.fromkeys(keys[::2], 1), 60)
    with pytest.raises(LookupError):
        await cache.get_or_set_many([SECRET, "left-out"], lambda keys: {}.popitem(), 60)
    spans = [(span.name, (span.attributes or {}).get("db.operation.batch.size")) for span in telemetry.spans()]
    assert spans == [
        ("BATCH lease", 3),
        ("BATCH cas", 2),
        ("give_back", None),
        ("BATCH lease", 2),
        ("give_back", None),
    ]
    assert all(SECRET not in span.to_json() for span in telemetry.spans())


@every_model
async def test_a_failure_is_in_its_span_and_says_no_secrets(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    cache = telemetry.traced(connect(f"127.0.0.1:{free_port()}", failover=False))
    with pytest.raises(pinyon.ConnectError):
        await cache.get(SECRET)
    with pytest.raises(pinyon.InvalidKey):
        await cache.get(f"{SECRET} with spaces")
    with pytest.raises(pinyon.ValueTooLarge, match=SECRET):
        await cache.set_many({SECRET: b"v" * 2_000_000})
    failed, refused, too_large = telemetry.spans()
    assert (failed.attributes or {})["error.type"] == "pinyon.errors.ConnectError"
    assert (refused.attributes or {})["error.type"] == "pinyon.errors.InvalidKey"
    assert failed.status.status_code is refused.status.status_code is StatusCode.ERROR
    assert SECRET not in failed.to_json() + refused.to_json() + too_large.to_json()


@every_model
async def test_spans_and_durations_agree(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    cache = telemetry.traced(connect(server))
    await model.gather(cache.get("key") for _ in range(20))
    (duration,) = telemetry.points("db.client.operation.duration")
    assert duration.count == 20 == len(telemetry.spans())
    assert duration.attributes["db.operation.name"] == "get"
    assert duration.sum > 0


@every_model
async def test_the_client_itself_goes_on_without_spans(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    cache = connect(server)
    traced = telemetry.traced(cache)
    await cache.set("key", "value")
    assert telemetry.spans() == []
    assert await traced.using(on_failure="miss").get("key") == "value"
    assert len(telemetry.spans()) == 1
    async with traced.quiet() as batch:
        await batch.set("other", 1)
    assert len(telemetry.spans()) == 1


@on_asyncio
async def test_a_span_has_the_callers_span_above_it(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    cache = telemetry.traced(connect(server))
    tracer = telemetry.tracing.get_tracer("test")
    with tracer.start_as_current_span("request"):
        await model.gather(cache.get("key") for _ in range(3))
    *gets, request = telemetry.spans()
    assert {get.parent.span_id if get.parent else None for get in gets} == {request.get_span_context().span_id}


@on_asyncio
async def test_a_cancelled_operation_says_so(
    model: Model, connect: Connect, own_server: Memcached, telemetry: Telemetry
) -> None:
    cache = telemetry.traced(connect(own_server))
    assert await cache.get("key") is None
    own_server.pause()
    try:
        waiting = cache.get("key")
        waiting.cancel()
        await model.sleep(0)
    finally:
        own_server.resume()
    assert (telemetry.spans()[-1].attributes or {})["error.type"] == "cancelled"


@every_model
async def test_what_is_counted_is_told(model: Model, connect: Connect, server: Memcached, telemetry: Telemetry) -> None:
    cache = connect(server)
    telemetry.instrument(cache)
    await cache.set("key", "value")
    for key in ("key", "absent") * 100:
        await cache.get(key)
    with pytest.raises(pinyon.ServerError):
        await cache.incr("key")
    assert telemetry.values("pinyon.client.commands", "db.operation.name", "pinyon.outcome") == {
        ("get", "hit"): 100,
        ("get", "miss"): 100,
        ("set", "stored"): 1,
    }
    errors = telemetry.values("pinyon.client.errors", "db.operation.name", "error.type")
    assert errors == {("incr", "pinyon.errors.ServerError"): 1}
    io = telemetry.values("pinyon.client.io", "network.io.direction", "server.port")
    assert all(io[direction, server.port] > 0 for direction in ("transmit", "receive"))
    connections = telemetry.values("db.client.connection.count", "db.client.connection.state")
    assert sum(connections.values()) == 1
    assert telemetry.values("pinyon.client.server.up", "server.address") == {(server.host,): 1}
    buckets = telemetry.values("pinyon.client.command.duration.bucket", "db.operation.name", "le")
    assert buckets["get", "+Inf"] == buckets["get", "10"] >= 3
    assert telemetry.values("pinyon.client.command.duration.sum", "db.operation.name")["get",] > 0


def test_clients_are_added_up_and_forgotten(server: Memcached, telemetry: Telemetry) -> None:
    first, second = (
        pinyon.Client(server.address, timeout=10, connect_timeout=10),
        pinyon.Client(server.address, timeout=10, connect_timeout=10),
    )
    for cache in (first, second):
        telemetry.instrument(cache)
        telemetry.instrument(cache)
        cache.get("key")
    assert telemetry.values("pinyon.client.commands", "pinyon.outcome") == {("miss",): 2}
    del first, second, cache
    assert telemetry.points("pinyon.client.commands") == []


@every_model
async def test_a_client_and_its_views_count_once(
    model: Model, connect: Connect, server: Memcached, telemetry: Telemetry
) -> None:
    cache, other = connect(server), connect(server)
    view, traced = cache.using(on_failure="miss"), telemetry.traced(cache)
    for told in (cache, view, view.using(failover=False), traced, traced.using(failover=False), other):
        telemetry.instrument(told)
    for asked in (cache, view, traced, other):
        await asked.get("key")
    assert telemetry.values("pinyon.client.commands", "pinyon.outcome") == {("miss",): 4}
    del cache, asked, told
    assert telemetry.values("pinyon.client.commands", "pinyon.outcome") == {("miss",): 4}


def test_unix_sockets_and_ipv6_have_their_addresses() -> None:
    assert address("/run/memcached.sock", "memcached") == {
        "db.system.name": "memcached",
        "server.address": "/run/memcached.sock",
    }
    assert address("[::1]:11211", "memcached") == {
        "db.system.name": "memcached",
        "server.address": "::1",
        "server.port": 11211,
    }
    several = "10.0.0.1:6379, 10.0.0.2:6379, 10.0.0.3:6379"
    assert address(several, "redis") == {"db.system.name": "redis", "server.address": several}
