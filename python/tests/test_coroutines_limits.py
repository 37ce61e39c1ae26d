"""Shared connections have a limited number of requests in flight. Further requests wait their turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate import Gate
from models import CancelledError, Model, cooperative, every_model
from servers import Memcached

import pinyon

Connect = Callable[..., Any]

KEYS = [f"key:{number}" for number in range(500)]


async def read(cache: Any, key: str) -> Any:
    return await cache.get(key)


@cooperative
async def test_no_more_than_the_limit_is_in_flight(model: Model, gate: Gate, connect: Connect) -> None:
    cache = connect(gate, max_in_flight=8)
    assert await cache.set_many({key: key for key in KEYS}) == []
    before = gate.target.statistic("cmd_get")
    gate.hold(replies=0)
    reading = [model.spawn(read(cache, key)) for key in KEYS]
    while gate.target.statistic("cmd_get") < before + 8:
        await model.sleep(0.001)
    await model.sleep(0.05)
    assert gate.target.statistic("cmd_get") == before + 8
    gate.release()
    assert [await model.join(task) for task in reading] == KEYS
    assert gate.accepted == 1


@cooperative
async def test_what_is_cancelled_in_the_queue_is_never_sent(model: Model, gate: Gate, connect: Connect) -> None:
    cache = connect(gate, max_in_flight=1)
    assert await cache.set_many({key: key for key in KEYS}) == []
    before = gate.target.statistic("cmd_get")
    held = gate.hold(replies=0)
    first, *queued, last = (model.spawn(read(cache, key)) for key in KEYS)
    while not held.is_set():
        await model.sleep(0.001)
    for task in queued:
        model.cancel(task)
    for task in queued:
        with pytest.raises(CancelledError):
            await model.join(task)
    gate.release()
    assert [await model.join(task) for task in (first, last)] == [KEYS[0], KEYS[-1]]
    assert gate.target.statistic("cmd_get") == before + 2


@cooperative
async def test_what_waits_for_its_turn_has_its_deadline(model: Model, gate: Gate, connect: Connect) -> None:
    cache = connect(gate, max_in_flight=2, timeout=3)
    assert await cache.set("key", "value")
    gate.hold(replies=0)
    in_flight, waiting = KEYS[:2], KEYS[2:]
    outcomes = dict(zip(KEYS, await model.gather(cache.set(key, key) for key in KEYS)))
    assert all(isinstance(outcomes[key], pinyon.Timeout) for key in in_flight), outcomes
    # Those that began later find the server marked down.
    assert all(isinstance(outcomes[key], (pinyon.Timeout, pinyon.ServerDown)) for key in waiting), outcomes
    assert {outcomes[key].sent for key in in_flight} == {"maybe"}
    assert {outcomes[key].sent for key in waiting} == {"no"}
    gate.release()
    assert await model.eventually(lambda: cache.get("key")) == "value"


@cooperative
async def test_what_exceeds_the_unsent_bytes_is_stored_in_its_order(model: Model, gate: Gate, connect: Connect) -> None:
    cache = connect(gate, max_unsent=1000)
    assert await cache.set("key", "")
    held = gate.hold(requests=0)
    appending = [model.spawn(cache.append("key", f"{number}," + "x" * 3000)) for number in range(300)]
    while not held.is_set():
        await model.sleep(0.001)
    gate.release()
    assert [await model.join(task) for task in appending] == [True] * 300
    assert (await cache.get("key")).replace("x", "") == "".join(f"{number}," for number in range(300))
    assert gate.accepted == 1


@pytest.mark.parametrize("setting", ["max_in_flight", "max_unsent"])
@cooperative
def test_a_limit_is_positive(model: Model, setting: str) -> None:
    for wrong in (0, -1):
        with pytest.raises((pinyon.UsageError, OverflowError)):
            model.client("127.0.0.1:11211", **{setting: wrong})


@pytest.mark.parametrize("count", [1, 2])
@every_model
async def test_the_keys_of_servers_that_failed_are_left_out(
    model: Model, count: int, own_server: Memcached, server: Memcached, connect: Connect
) -> None:
    servers = [own_server, server][:count]
    cache = connect(*servers, failover=False)
    values = {key: key for key in KEYS}
    assert await cache.set_many(values) == []
    failed: dict[str, pinyon.Error] = {}
    assert await cache.get_many(values, failed=failed) == values
    assert failed == {}
    kept = {key: key for key in KEYS if count == 2 and server.holds(key)}
    own_server.stop()
    for _ in range(3):
        failed.clear()
        assert await cache.get_many(values, failed=failed) == kept
        assert list(failed) == [own_server.address]
        assert isinstance(failed[own_server.address], (pinyon.ConnectError, pinyon.ConnectionLost, pinyon.ServerDown))
    with pytest.raises(pinyon.Error):
        await cache.get_many(values)
