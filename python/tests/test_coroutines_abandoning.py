"""A caller that goes away in the middle of an exchange disturbs no other caller, and the client stays usable."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from faulty import STALL, Conversation, FaultyServer, Step
from gate import Gate
from models import CancelledError, GaveUpError, Model, cooperative, every_model, shuffled
from servers import Memcached
from wire import render

import pinyon

Connect = Callable[..., Any]
Faults = Callable[..., FaultyServer]

MANY = {f"many:{number}": f"value of many:{number}" * 20 for number in range(500)}
LARGE = {"large": b"large" * 1_600_000}
VALUES: dict[str, Any] = {"mine": "mine" * 30, "earlier": "earlier", "later": "later", **MANY, **LARGE}
ANOTHER = b"other" * 1_600_000

#: An operation, and how many bytes of its request or reply have passed when it is given up.
POINTS: dict[str, tuple[Callable[[Any], Any], dict[str, int]]] = {
    "half sent": (lambda cache: cache.set("large", ANOTHER), {"requests": 1000}),
    "before the reply": (lambda cache: cache.get("mine"), {"replies": 0}),
    "amid the reply's line": (lambda cache: cache.get("mine"), {"replies": 5}),
    "amid a value": (lambda cache: cache.get("mine"), {"replies": 60}),
    "amid a large value": (lambda cache: cache.get("large"), {"replies": 1_000_000}),
    "amid many values": (lambda cache: cache.get_many(MANY), {"replies": 50_000}),
    "before the last of many is stored": (lambda cache: cache.set_many(MANY), {"requests": 50_000}),
    "amid a large value among many": (lambda cache: cache.get_many(VALUES), {"replies": 1_000_000}),
}


async def read(cache: Any, key: str) -> Any:
    return await cache.get(key)


async def uses_of(cache: Any) -> None:
    """Checks that all callers get the values of their own keys."""
    large = await cache.get("large")
    assert large in (LARGE["large"], ANOTHER)
    assert await cache.get_many(VALUES) == {**VALUES, "large": large}
    assert await cache.get("mine") == VALUES["mine"]
    assert await cache.set("new", "new") is True
    assert await cache.get("new") == "new"


@pytest.mark.parametrize("point", POINTS)
@every_model
async def test_given_up_at_any_point_of_an_exchange(model: Model, point: str, gate: Gate, connect: Connect) -> None:
    begin, passed = POINTS[point]
    cache = connect(gate, max_value_size=16 * 1024 * 1024)
    assert await cache.set_many(VALUES) == []

    async def use() -> None:
        await begin(cache)

    held = gate.hold(**passed)
    await model.abandon(use(), held)
    later = [model.spawn(read(cache, key)) for key in ("later", "mine")]
    await model.sleep(0)
    gate.release()
    assert [await model.join(task) for task in later] == ["later", VALUES["mine"]]
    await uses_of(cache)
    assert gate.accepted == 1 or not model.cancels


@every_model
async def test_given_up_while_it_connects(model: Model, gate: Gate, connect: Connect) -> None:
    cache = connect(gate)

    await model.abandon(read(cache, "mine"), gate.hold(replies=0))
    later = model.spawn(cache.set("later", "later"))
    gate.release()
    assert await model.join(later) is True
    assert await cache.get("later") == "later"
    assert gate.accepted == 1 or not model.cancels


async def before_it_is_submitted(model: Model, cache: Any, gate: Gate) -> None:
    task = model.spawn(read(cache, "mine"))
    model.cancel(task)


async def before_it_is_sent(model: Model, cache: Any, gate: Gate) -> None:
    task = model.spawn(read(cache, "mine"))
    await model.sleep(0)
    time.sleep(0.02)
    assert gate.requests.allowance.count == 0
    model.cancel(task)


async def after_its_reply_has_come(model: Model, cache: Any, gate: Gate) -> None:
    held = gate.hold(replies=0)
    task = model.spawn(read(cache, "mine"))
    while not held.is_set():
        await model.sleep(0.001)
    let_the_replies_come(gate)
    model.cancel(task)


async def after_its_reply_was_taken(model: Model, cache: Any, gate: Gate) -> None:
    """An earlier reply in the same receive wakes the task that cancels it."""
    held = gate.hold(replies=0)

    async def neighbour() -> None:
        assert await cache.get("earlier") == "earlier"
        model.cancel(task)

    cancelling = model.spawn(neighbour())
    task = model.spawn(read(cache, "mine"))
    while not held.is_set():
        await model.sleep(0.001)
    let_the_replies_come(gate)
    await model.join(cancelling)


def let_the_replies_come(gate: Gate) -> None:
    """Lets replies arrive without a turn of the loop in between."""
    gate.release()
    while not gate.replies.allowance.last.endswith(b"mine\r\n"):
        time.sleep(0.001)


TURNS = (before_it_is_submitted, before_it_is_sent, after_its_reply_has_come, after_its_reply_was_taken)


@pytest.mark.parametrize("cancel", TURNS, ids=lambda cancel: cancel.__name__)
@cooperative
async def test_cancelled_at_any_turn_of_the_loop(
    model: Model, cancel: Callable[..., Any], gate: Gate, connect: Connect
) -> None:
    cache = connect(gate, max_value_size=16 * 1024 * 1024)
    assert await cache.set_many(VALUES) == []
    gate.hold()
    earlier = model.spawn(read(cache, "earlier"))
    await cancel(model, cache, gate)
    later = model.spawn(read(cache, "later"))
    assert [await model.join(task) for task in (earlier, later)] == ["earlier", "later"]
    await uses_of(cache)
    assert gate.accepted == 1


@cooperative
async def test_a_timeout_of_the_callers_own_abandons_one_exchange(model: Model, gate: Gate, connect: Connect) -> None:
    """A ``gevent.Timeout``, or ``asyncio.wait_for``."""
    cache = connect(gate, max_value_size=16 * 1024 * 1024)
    assert await cache.set_many(VALUES) == []
    gate.hold(replies=1_000_000)
    with pytest.raises(GaveUpError):
        await model.within(0.05, read(cache, "large"))
    later = model.spawn(read(cache, "later"))
    await model.sleep(0)
    gate.release()
    assert await model.join(later) == "later"
    await uses_of(cache)
    assert gate.accepted == 1


@cooperative
async def test_a_deadline_abandons_one_exchange(model: Model, gate: Gate, connect: Connect) -> None:
    """The late reply is dropped, and later callers get their own replies on the same connection."""
    cache = connect(gate, timeout=3)
    assert await cache.set_many({"mine": "mine", "later": "later"}) == []
    gate.hold(replies=0)
    mine = model.spawn(read(cache, "mine"))
    await model.sleep(1.5)
    later = model.spawn(read(cache, "later"))
    with pytest.raises(pinyon.Timeout):
        await model.join(mine)
    gate.release()
    assert await model.join(later) == "later"
    assert await model.eventually(lambda: cache.get("mine")) == "mine"
    assert gate.accepted == 1


@cooperative
async def test_the_connection_is_closed_once_everybody_waits_in_vain(
    model: Model, gate: Gate, connect: Connect
) -> None:
    cache = connect(gate, timeout=2.4)
    assert await cache.set("mine", "mine")
    gate.hold(replies=0)
    cancelled = model.spawn(read(cache, "mine"))
    await model.sleep(0)
    model.cancel(cancelled)
    first = model.spawn(read(cache, "mine"))
    await model.sleep(1.2)
    last_begun = time.monotonic()
    last = model.spawn(read(cache, "mine"))
    for waiting in (first, last):
        with pytest.raises(pinyon.Timeout):
            await model.join(waiting)
    assert gate.ended.wait(60)
    assert gate.ended_at >= last_begun + 2.4
    gate.release()
    assert await model.eventually(lambda: cache.get("mine")) == "mine"
    assert gate.accepted == 2


HIT = "VA 5 f16 O{opaque}\r\nvalue\r\n"


@pytest.mark.parametrize("size", [0, 5], ids=["before the reply", "amid the reply"])
@cooperative
async def test_cancelling_while_the_server_answers_slowly(
    model: Model, size: int, faulty: Faults, connect: Connect
) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def first(conversation: Conversation) -> None:
        reply = render(HIT, conversation.request())
        conversation.send(reply[:size])
        begun.set()
        assert cancelled.wait(60)
        conversation.send(reply[size:])

    slowly = faulty(first, Step("VA 5 f16 O{opaque}\r\nother\r\n"), Step("VA 5 f16 O{opaque}\r\nthird\r\n"), STALL)
    cache = connect(slowly)
    ending, neighbour = model.spawn(read(cache, "first")), model.spawn(read(cache, "second"))
    await model.until(begun.is_set)
    await model.sleep(0.05)
    model.cancel(ending)
    with pytest.raises(CancelledError):
        await model.join(ending)
    cancelled.set()
    later = model.spawn(read(cache, "third"))
    assert await model.join(neighbour) == "other"
    assert await model.join(later) == "third"
    assert slowly.accepted == 1


@cooperative
async def test_cancelling_all_on_a_stalled_server_and_then_more(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    await cache.set("key", "value")
    own_server.pause()
    tasks = [model.spawn(cache.get("key")) for _ in range(500)]
    tasks += [model.spawn(cache.set(f"large:{n}", b"x" * 900_000)) for n in range(4)]
    tasks += [model.spawn(cache.set(f"key:{n}", b"x" * 500)) for n in range(5000)]
    await model.sleep(0.05)
    for task in tasks:
        model.cancel(task)
    after = model.spawn(cache.get("key"))
    own_server.resume()
    assert await model.join(after) == "value"
    assert own_server.has_connections(1)


#: Many workers with few operations of each kind, so that a wrong value would belong to another key.
WORKERS = 64
CANCELLED_PER_WORKER = 160
KEYS = [f"key:{number}" for number in range(200)]


def value_of(key: str) -> str:
    number = int(key.split(":")[1])
    return f"{key}=" + "v" * (20_000 if number % 50 == 0 else number)


async def use_and_check(cache: Any, chance: Any) -> None:
    """One operation. Its values must belong to its keys."""
    key = chance.choice(KEYS)
    kind = chance.randrange(6)
    if kind == 0:
        assert await cache.set(key, value_of(key)) is True
    elif kind == 1:
        wanted = chance.sample(KEYS, 5)
        assert await cache.get_many(wanted) == {each: value_of(each) for each in wanted}
    elif kind == 2:
        assert (await cache.gets(key))[0] == value_of(key)
    else:
        assert await cache.get(key) == value_of(key)


async def cancel_at_random(model: Model, cache: Any, seed: int) -> int:
    """Returns how many operations were begun and cancelled. All others were checked."""
    chance = shuffled(seed)
    cancelled = 0
    while cancelled < CANCELLED_PER_WORKER:
        if chance.random() < 0.05:
            with contextlib.suppress(GaveUpError):
                await model.within(chance.random() * 0.004, use_and_check(cache, chance))
                continue
            cancelled += 1
            continue
        task = model.spawn(use_and_check(cache, chance))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
            await model.sleep(0)
        model.cancel(task)
        try:
            await model.join(task)
        except CancelledError:
            cancelled += 1
        if chance.random() < 0.1:
            await use_and_check(cache, chance)
    return cancelled


@cooperative
async def test_10000_random_cancellations_among_64_workers(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    assert await cache.set_many({key: value_of(key) for key in KEYS}) == []
    before = own_server.statistic("total_connections")
    counts = await model.gather(cancel_at_random(model, cache, seed) for seed in range(WORKERS))
    assert [count for count in counts if not isinstance(count, int)] == []
    assert sum(counts) >= 10_000
    assert await cache.get_many(KEYS) == {key: value_of(key) for key in KEYS}
    assert own_server.statistic("total_connections") == before + 1
    assert own_server.has_connections(1)


@cooperative
async def test_cancelling_amid_large_values(model: Model, own_server: Memcached, connect: Connect) -> None:
    large = {f"large:{n}": b"%d" % n * (400_000 + n) for n in range(10)}
    cache = connect(own_server)
    assert await cache.set_many(large) == []
    before = own_server.statistic("total_connections")
    for turn in range(40):
        tasks = {key: model.spawn(cache.get(key)) for key in large}
        stores = [model.spawn(cache.set(key, large[key])) for key in list(large)[:3]]
        for _ in range(turn % 8):
            await model.sleep(0)
        for key in list(tasks)[::2]:
            model.cancel(tasks[key])
        for store in stores[::2]:
            model.cancel(store)
        for key, task in tasks.items():
            with contextlib.suppress(CancelledError):
                assert await model.join(task) == large[key]
    assert await cache.get_many(large) == large
    assert own_server.statistic("total_connections") == before + 1


@cooperative
async def test_cancelled_batches_leave_the_client_usable(model: Model, own_server: Memcached, connect: Connect) -> None:
    cache = connect(own_server)
    values = {f"key:{number}": number for number in range(5000)}

    async def fill() -> None:
        async with cache.quiet() as batch:
            for key, value in values.items():
                await batch.set(key, value)

    await cache.version()
    for turn in range(20):
        task = model.spawn(fill())
        for _ in range(turn):
            await model.sleep(0)
        model.cancel(task)
        with contextlib.suppress(CancelledError):
            await model.join(task)
        for method in ("get_many", "delete_many", "stats", "version"):
            ending = model.spawn(getattr(cache, method)(*([list(values)[:500]] if "many" in method else [])))
            await model.sleep(0)
            model.cancel(ending)
            with contextlib.suppress(CancelledError):
                await model.join(ending)
    await fill()
    assert await cache.get_many(values) == values
    assert own_server.has_connections(1)
