"""Coroutines whose server misbehaves, and those that stop waiting for it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faulty import FaultyServer, Step, cut, drip, half_close, late, reply, reset, say, stall, swap
from models import COOPERATIVE, MODELS, CancelledError, GaveUpError, Model, names
from servers import Memcached, free_port

import pinyon

model_of_all = pytest.mark.parametrize("model", MODELS, ids=names)
cooperative = pytest.mark.parametrize("model", COOPERATIVE, ids=names)


@pytest.fixture
def full_listener() -> Iterator[str]:
    """The address of a server whose queue of connections is full: connecting to it takes forever."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", free_port()))
        listening.listen(0)
        for _ in range(3):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listening.getsockname())
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def eventually(model: Model, attempt: Callable[[], Any]) -> Any:
    for _ in range(100):
        try:
            return await attempt()
        except pinyon.Error:
            await model.sleep(0.05)
    return await attempt()


HIT = b"VA 5 f16 O$O\r\nvalue\r\n"
OTHER = b"VA 5 f16 O$O\r\nother\r\n"

#: What a server does to each get, and what all who wait for one are told.
FAULTS: dict[str, tuple[tuple[Step, ...], type[pinyon.Error]]] = {
    "stalls": ((stall,), pinyon.Timeout),
    "drips": ((drip(b"VA 1000 f0 O$O\r\n" + b"x" * 1000, 0.03),), pinyon.Timeout),
    "cuts at once": ((cut(HIT, 0),), pinyon.Error),
    "cuts the line": ((cut(HIT, 7),), pinyon.Error),
    "cuts the value": ((cut(HIT, 16),), pinyon.Error),
    "cuts a large value": ((cut(b"VA 100000 f0 O$O\r\n" + b"x" * 100_000, 60_000),), pinyon.Error),
    "half closes": ((half_close,), pinyon.Error),
    "resets": ((reset,), pinyon.Error),
    "garbles": ((reply(b"\x00\xff garbage\r\n"),), pinyon.Error),
    "answers another request": ((reply(b"VA 5 f16 Offff\r\nwrong\r\n"),), pinyon.Error),
    "gives no opaque": ((reply(b"VA 5 f16\r\nwrong\r\n"),), pinyon.Error),
    "swaps": ((swap(b"VA 5 f16 O$O\r\nwrong\r\n"),), pinyon.Error),
    "says more than asked": ((say(HIT + HIT), stall), pinyon.Error),
}


@pytest.mark.parametrize("fault", FAULTS)
@model_of_all
def test_a_fault_is_told_to_all_who_wait_and_then_the_server_is_used_again(
    model: Model, fault: str, faulty: Callable[..., FaultyServer], server: Memcached
) -> None:
    steps, kind = FAULTS[fault]
    broken = faulty(*steps)

    async def scenario() -> None:
        cache = model.client(broken.address, timeout=0.3, connect_timeout=0.3)
        for outcome in await model.gather(cache.get(f"key:{n}") for n in range(4)):
            assert isinstance(outcome, (kind, pinyon.ServerDown, pinyon.ConnectError)), repr(outcome)
        broken.heal(server)
        await eventually(model, lambda: cache.set("key", "right"))
        outcomes = await model.gather(cache.get("key") for _ in range(10))
        assert outcomes == ["right"] * 10
        cache.close()

    model.run(scenario())


@cooperative
def test_everything_fails_by_its_deadline_when_the_server_stalls(model: Model, own_server: Memcached) -> None:
    async def scenario() -> None:
        cache = model.client(own_server.address, timeout=0.3)
        assert await cache.set("key", "value")
        own_server.pause()
        methods = [
            cache.get("key"),
            cache.set("key", 1),
            cache.get_many(["key", "b"]),
            cache.set_many({"a": 1, "b": 2}),
        ]
        methods += [cache.delete("a"), cache.delete_many(["a"]), cache.incr("a"), cache.stats(), cache.version()]
        methods += [cache.set("large", b"x" * 900_000), cache.flush_all(), cache.gets("a"), cache.meta("a")]
        for outcome in await model.gather(methods):
            assert isinstance(outcome, pinyon.Timeout), repr(outcome)
        own_server.resume()
        assert await eventually(model, lambda: cache.set("key", "again"))
        assert await cache.get("key") == "again"
        cache.close()

    model.run(scenario())


@cooperative
def test_the_deadline_counts_while_queued_behind_a_stalled_server(model: Model, own_server: Memcached) -> None:
    async def scenario() -> None:
        cache = model.client(own_server.address, timeout=0.3)
        assert await cache.set("key", "value")
        own_server.pause()
        for outcome in await model.gather(cache.set(f"key:{n}", b"x" * 100) for n in range(6000)):
            assert isinstance(outcome, pinyon.Timeout), repr(outcome)
        own_server.resume()
        assert await eventually(model, lambda: cache.set("key", "again"))
        assert await cache.get("key") == "again"
        cache.close()

    model.run(scenario())


@model_of_all
def test_connecting_has_a_deadline(model: Model, full_listener: str) -> None:
    async def scenario() -> None:
        cache = model.client(full_listener, timeout=0.6, connect_timeout=0.2)
        gets = model.gather(cache.get("key") for _ in range(3))
        for outcome in await (model.within(2, gets) if model.cancels else gets):
            assert isinstance(outcome, (pinyon.ConnectError, pinyon.Timeout, pinyon.ServerDown)), repr(outcome)
        cache.close()

    model.run(scenario())


@model_of_all
def test_a_server_that_refuses(model: Model) -> None:
    async def scenario() -> None:
        cache = model.client(f"127.0.0.1:{free_port()}", timeout=0.3)
        for _ in range(5):
            for outcome in await model.gather(cache.get("key") for _ in range(5)):
                assert isinstance(outcome, (pinyon.ConnectError, pinyon.ServerDown)), repr(outcome)
        cache.close()

    model.run(scenario())


@pytest.mark.parametrize("failover", [False, True])
@model_of_all
def test_one_of_two_servers_goes_away(model: Model, failover: bool, own_server: Memcached, server: Memcached) -> None:
    values = {f"key:{n}": n for n in range(200)}

    async def scenario() -> None:
        cache = model.client([own_server.address, server.address], timeout=1.0, failover=failover)
        assert await cache.set_many(values) == []
        kept = {key: value for key, value in values.items() if server.holds(key)}
        assert 20 < len(kept) < 180
        own_server.stop()
        if failover:
            assert await cache.get_many(values) == kept
            assert await cache.set_many(values) == []
            assert await cache.get_many(values) == values
            assert await model.gather(cache.get(key) for key in values) == list(values.values())
        else:
            for _ in range(3):
                with pytest.raises(pinyon.Error) as raised:
                    await cache.get_many(values)
                assert raised.value.partial == kept
                assert raised.value.server == own_server.address
            with pytest.raises(pinyon.Error) as raised:
                await cache.set_many(values)
            assert sorted(raised.value.partial) == sorted(values.keys() - kept.keys())
            with pytest.raises(pinyon.Error) as raised:
                await cache.delete_many(values)
            assert raised.value.partial == len(kept)
            for key, outcome in zip(values, await model.gather(cache.get(key) for key in values)):
                assert outcome is None if key in kept else isinstance(outcome, pinyon.Error)
        own_server.restart()
        assert await eventually(model, lambda: cache.set_many(values)) == []
        assert await eventually(model, lambda: cache.get_many(values)) == values
        cache.close()

    model.run(scenario())


@cooperative
def test_cancelling_before_anything_is_sent(model: Model, own_server: Memcached) -> None:
    async def scenario() -> None:
        cache = model.client(own_server.address, timeout=5)
        await cache.set_many({f"key:{n}": n for n in range(20)})
        tasks = [model.spawn(cache.get(f"key:{n}")) for n in range(20)]
        for task in tasks[::2]:
            model.cancel(task)
        for n, task in enumerate(tasks):
            if n % 2:
                assert await model.join(task) == n
            else:
                with pytest.raises(CancelledError):
                    await model.join(task)
        assert own_server.connections() == 1
        cache.close()

    model.run(scenario())


@pytest.mark.parametrize("slow", [late, drip], ids=["before the reply", "amid the reply"])
@cooperative
def test_cancelling_while_the_server_answers_slowly(
    model: Model, slow: Callable[[bytes, float], Step], faulty: Callable[..., FaultyServer]
) -> None:
    """The cancelled one's reply comes late and is dropped: its neighbours, before and after, get their own."""
    first = late(HIT, 0.2) if slow is late else drip(HIT, 0.01)
    slowly = faulty(first, reply(OTHER), reply(b"VA 5 f16 O$O\r\nthird\r\n"), stall)

    async def scenario() -> None:
        cache = model.client(slowly.address, timeout=5)
        ending, neighbour = model.spawn(cache.get("first")), model.spawn(cache.get("second"))
        await model.sleep(0.1)
        model.cancel(ending)
        with pytest.raises(CancelledError):
            await model.join(ending)
        later = model.spawn(cache.get("third"))
        assert await model.join(neighbour) == "other"
        assert await model.join(later) == "third"
        assert slowly.accepted == 1
        cache.close()

    model.run(scenario())


@cooperative
def test_giving_up_on_a_large_value_amid_its_reply(model: Model, faulty: Callable[..., FaultyServer]) -> None:
    def slowly(conversation: Any) -> None:
        opaque = conversation.request().split(b" O")[1].split()[0]
        conversation.send(b"VA 300000 f0 O" + opaque + b"\r\n" + b"x" * 150_000)
        conversation.over.wait(0.3)
        conversation.send(b"x" * 150_000 + b"\r\n")

    server = faulty(slowly, reply(OTHER), stall)

    async def scenario() -> None:
        cache = model.client(server.address, timeout=5)
        with pytest.raises(GaveUpError):
            await model.within(0.1, cache.get("large"))
        assert await cache.get("small") == "other"
        assert server.accepted == 1
        cache.close()

    model.run(scenario())


@cooperative
def test_cancelling_all_on_a_stalled_server_and_then_more(model: Model, own_server: Memcached) -> None:
    async def scenario() -> None:
        cache = model.client(own_server.address, timeout=5)
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
        assert own_server.connections() == 1
        cache.close()

    model.run(scenario())


@cooperative
def test_others_go_on_while_some_wait_for_a_stalled_server(model: Model, own_server: Memcached) -> None:
    async def scenario() -> None:
        cache = model.client(own_server.address, timeout=0.5)
        await cache.set("key", "value")
        own_server.pause()
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await model.sleep(0.005)
                ticks += 1

        ticker = model.spawn(tick())
        for outcome in await model.gather(cache.get("key") for _ in range(20)):
            assert isinstance(outcome, pinyon.Timeout)
        assert ticks > 20
        model.cancel(ticker)
        cache.close()

    model.run(scenario())
