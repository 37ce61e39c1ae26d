"""Leases by hand: what is found, which caller wins, and what others see meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from faulty import FaultyServer, OlderServer, Step
from gate import Gate
from making import LONG, awaited, never
from models import Asyncio, CancelledError, Model, cooperative, every_model
from servers import Memcached
from waiting import SOON

import pinyon
from pinyon import Outcome

Connect = Callable[..., Any]
Faults = Callable[..., FaultyServer]


@every_model
async def test_a_lease_by_hand(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    won, filling = await cache.lease("key"), await cache.lease("key")
    assert (won.state, won.value, won.has_value) == (Outcome.WON, None, False)
    assert (filling.state, filling.value, filling.has_value) == (Outcome.FILLING, None, False)
    assert repr(won).endswith("Lease 'key' WON>")
    with pytest.raises(pinyon.UsageError, match="this one is FILLING"):
        await awaited(filling.fulfil("value"))
    with pytest.raises(pinyon.UnsupportedType):
        await awaited(won.fulfil(object()))
    assert await awaited(won.fulfil("value", ttl=60)) is True
    assert await awaited(won.fulfil("again")) is False
    assert await awaited(won.give_back()) is False
    hit = await cache.lease("key")
    assert (hit.key, hit.state, hit.value) == ("key", Outcome.HIT, "value")
    early, stale = await cache.lease("key", recache=90), await cache.lease("key", recache=90)
    assert (early.state, early.value) == (Outcome.WON, "value")
    assert (stale.state, stale.value) == (Outcome.STALE, "value")
    assert await cache.set("key", "other")
    assert await awaited(early.fulfil("late")) is False
    assert await cache.get("key") == "other"


@every_model
async def test_the_block_of_a_lease_gives_back_what_it_holds(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)

    async def hold(error: Exception | None) -> None:
        lease = await cache.lease("key", lease=LONG)
        if isinstance(model, Asyncio):
            async with lease as held:
                assert held.state is Outcome.WON
                if error:
                    raise error
            return
        with lease as held:
            assert held.state is Outcome.WON
            if error:
                raise error

    await hold(None)
    with pytest.raises(LookupError):
        await hold(LookupError())
    await hold(None)


@cooperative
async def test_a_lease_whose_caller_has_gone_when_it_is_won_is_given_back(
    model: Model, gate: Gate, connect: Connect
) -> None:
    cache, other = connect(gate), connect(gate.target)
    await cache.version()
    for begin in (lambda: cache.get_or_set("key", never, 60, lease=LONG), lambda: cache.lease("key", lease=LONG)):
        held = gate.hold(replies=0)
        task = model.spawn(begin())
        await model.until(held.is_set)
        model.cancel(task)
        with pytest.raises(CancelledError):
            await model.join(task)
        gate.release()
        assert await other.get_or_set("key", lambda: "value", 60, wait=SOON) == "value"
        assert await other.delete("key")


@every_model
async def test_a_placeholder_is_a_miss_for_all_that_read(model: Model, server: Memcached, connect: Connect) -> None:
    """Even on a line of many keys, where the reply does not distinguish it from an empty value."""
    cache = connect(server)
    keys = [f"key{number}" for number in range(40)]
    await cache.set_many(dict.fromkeys(keys, "value"))
    await cache.set("empty", b"")
    await cache.delete("key7")
    assert (await cache.lease("key7")).state == Outcome.WON
    there = {**dict.fromkeys(keys, "value"), "empty": b""}
    del there["key7"]
    assert await cache.get_many([*keys, "empty"]) == there
    assert {key: value for key, (value, _) in (await cache.gets_many([*keys, "empty"])).items()} == there
    found = await model.gather(cache.get(key, "missing") for key in [*keys, "empty"])
    assert found == [there.get(key, "missing") for key in [*keys, "empty"]]


@every_model
async def test_an_old_server_has_empty_values_and_no_placeholders(
    model: Model, server: Memcached, classic_server: OlderServer, connect: Connect
) -> None:
    cache = connect(classic_server)
    keys = [f"key{number}" for number in range(40)]
    await cache.set_many(dict.fromkeys(keys, b""))
    assert await cache.get_many([*keys, "absent"]) == dict.fromkeys(keys, b"")
    assert await model.gather(cache.get(key) for key in [*keys, "absent"]) == [b""] * 40 + [None]


@every_model
async def test_without_a_server_a_lease_is_won_and_nothing_can_be_stored(
    model: Model, faulty: Faults, connect: Connect
) -> None:
    server = faulty(*[Step(then="close")] * 9)
    lease = await connect(server, on_failure="miss", failover=False).lease("key")
    assert (lease.state, lease.value) == (Outcome.WON, None)
    assert await awaited(lease.fulfil("value")) is False
    assert await awaited(lease.give_back()) is False
