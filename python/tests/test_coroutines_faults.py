"""Servers that stall, break or answer wrongly: waiting callers are told in time, and the client works afterwards."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faulty import Conversation, FaultyServer, Play
from models import Model, cooperative, every_model
from pinyon_verify.ports import free_port
from servers import Memcached
from wire import render

import pinyon

Connect = Callable[..., Any]


@pytest.fixture
def full_listener() -> Iterator[str]:
    """The address of a server whose queue of connections is full: connecting takes forever."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listening.getsockname())
        yield f"127.0.0.1:{listening.getsockname()[1]}"


EVERY_METHOD: list[Callable[[Any], Any]] = [
    lambda cache: cache.get("key"),
    lambda cache: cache.gets("key"),
    lambda cache: cache.meta("key"),
    lambda cache: cache.get_many(["key", "b"]),
    lambda cache: cache.set("key", 1),
    lambda cache: cache.set("large", b"x" * 900_000),
    lambda cache: cache.set_many({"a": 1, "b": 2}),
    lambda cache: cache.delete("a"),
    lambda cache: cache.delete_many(["a"]),
    lambda cache: cache.incr("a"),
    lambda cache: cache.stats(),
    lambda cache: cache.version(),
    lambda cache: cache.flush_all(),
]


@cooperative
async def test_everything_fails_by_its_deadline_when_the_server_stalls(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server, timeout=3)
    assert await model.eventually(lambda: cache.set("key", "value"))
    own_server.pause()
    for outcome in await model.gather(method(cache) for method in EVERY_METHOD):
        assert isinstance(outcome, pinyon.Timeout), repr(outcome)
    own_server.resume()

    async def can_be_used() -> bool:
        # It carries out late what was sent before.
        await model.eventually(lambda: cache.set("key", "again"))
        return bool(await cache.get("key") == "again")

    await model.until(can_be_used)


@cooperative
async def test_the_deadline_counts_while_queued_behind_a_stalled_server(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server, timeout=3)
    assert await model.eventually(lambda: cache.set("key", "value"))
    own_server.pause()
    for outcome in await model.gather(cache.set(f"key:{n}", b"x" * 100_000) for n in range(100)):
        assert isinstance(outcome, pinyon.Timeout), repr(outcome)
    own_server.resume()
    assert await model.eventually(lambda: cache.set("key", "again"))
    assert await cache.get("key") == "again"


@every_model
async def test_connecting_has_a_deadline(model: Model, full_listener: str, connect: Connect) -> None:
    cache = connect(full_listener, timeout=0.6, connect_timeout=0.2)
    gets = model.gather(cache.get("key") for _ in range(3))
    for outcome in await (model.within(60, gets) if model.cancels else gets):
        assert isinstance(outcome, (pinyon.ConnectError, pinyon.Timeout, pinyon.ServerDown)), repr(outcome)


@every_model
async def test_a_server_that_refuses(model: Model, connect: Connect) -> None:
    cache = connect(f"127.0.0.1:{free_port()}")
    for _ in range(5):
        for outcome in await model.gather(cache.get("key") for _ in range(5)):
            assert isinstance(outcome, (pinyon.ConnectError, pinyon.ServerDown)), repr(outcome)


async def quietly(cache: Any) -> None:
    async with cache.quiet() as batch:
        await batch.set("key", 1)


@every_model
async def test_a_server_that_was_restarted_while_the_loop_was_away_costs_no_error(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    version = await cache.version()
    uses: list[tuple[Callable[[], Any], Any]] = [
        (lambda: cache.get("key"), None),
        (lambda: cache.set("key", 1), True),
        (lambda: cache.incr("key"), None),
        (lambda: cache.get_many(["key"]), {}),
        (lambda: cache.set_many({"key": 1}), []),
        (lambda: cache.delete_many(["key"]), 0),
        (lambda: quietly(cache), None),
        (lambda: cache.version(), version),
    ]
    for use, outcome in uses:
        await cache.get("warm")
        own_server.restart()
        time.sleep(0.05)
        assert await use() == outcome
        assert f"{own_server.address} up" in cache.describe()[0]


SOME = {f"key:{n}": n for n in range(200)}


@every_model
async def test_the_keys_of_a_server_that_goes_away_move_to_the_other(
    model: Model, own_server: Memcached, server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server, server)
    assert await cache.set_many(SOME) == []
    kept = {key: value for key, value in SOME.items() if server.holds(key)}
    assert 20 < len(kept) < 180
    own_server.stop()
    assert await cache.get_many(SOME) == kept
    assert await cache.set_many(SOME) == []
    assert await cache.get_many(SOME) == SOME
    assert await model.gather(cache.get(key) for key in SOME) == list(SOME.values())
    await comes_back(model, cache, own_server)


@every_model
async def test_without_failover_the_keys_of_a_server_that_goes_away_fail(
    model: Model, own_server: Memcached, server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server, server, failover=False)
    assert await cache.set_many(SOME) == []
    kept = {key: value for key, value in SOME.items() if server.holds(key)}
    assert 20 < len(kept) < 180
    own_server.stop()
    for _ in range(3):
        with pytest.raises(pinyon.Error) as raised:
            await cache.get_many(SOME)
        assert raised.value.partial == kept
        assert raised.value.server == own_server.address
    with pytest.raises(pinyon.Error) as raised:
        await cache.set_many(SOME)
    assert sorted(raised.value.partial) == sorted(SOME.keys() - kept.keys())
    with pytest.raises(pinyon.Error) as raised:
        await cache.delete_many(SOME)
    assert raised.value.partial == len(kept)
    for key, outcome in zip(SOME, await model.gather(cache.get(key) for key in SOME)):
        assert outcome is None if key in kept else isinstance(outcome, pinyon.Error)
    await comes_back(model, cache, own_server)


async def comes_back(model: Model, cache: Any, server: Memcached) -> None:
    server.restart()

    async def is_in_use() -> None:
        assert await cache.set_many(SOME) == []
        if await cache.get_many(SOME) != SOME:
            raise pinyon.ServerDown("it was stored elsewhere, and the server came back meanwhile")

    await model.eventually(is_in_use)


def store_all_but(key: bytes) -> Play:
    """A server without room for one key. It reports an error without the key."""

    def step(conversation: Conversation) -> None:
        while True:
            request = conversation.request()
            words = request.split()
            if words[0] == b"mn":
                conversation.send(b"MN\r\n")
            elif words[1] == key:
                conversation.send(b"SERVER_ERROR out of memory storing object\r\n")
            elif b"q" not in words:
                conversation.send(render("HD O{opaque}\r\n", request))

    return step


@cooperative
async def test_one_of_many_sets_fails_and_the_others_do_not(model: Model, connect: Connect) -> None:
    with FaultyServer(store_all_but(b"key:7")) as server:
        cache = connect(server)
        outcomes = await model.gather(cache.set(f"key:{number}", "value") for number in range(20))
        assert isinstance(outcomes[7], pinyon.ServerError)
        assert "out of memory" in str(outcomes[7])
        assert outcomes[:7] + outcomes[8:] == [True] * 19
        assert any(b" q" in request for request in server.conversations[0].requests), "some were to be quiet"
        assert server.accepted == 1
