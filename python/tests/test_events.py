"""The events for ``on_event``, in every concurrency model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from faulty import STALL, FaultyServer, Step
from models import Model, every_model
from pinyon_verify.ports import free_port
from servers import Memcached

import pinyon

Connect = Callable[..., Any]
HIT = "VA 5 f16 O{opaque}\r\nvalue\r\n"


class Watcher:
    def __init__(self) -> None:
        self.events: list[pinyon.Event] = []

    def __call__(self, event: pinyon.Event) -> None:
        self.events.append(event)

    def of(self, kind: str) -> list[pinyon.Event]:
        return [event for event in self.events if event.kind == kind]

    async def has(self, model: Model, kind: str) -> pinyon.Event:
        """The first event of this kind, once it arrives."""
        await model.until(lambda: self.of(kind))
        return self.of(kind)[0]


async def swallow(attempt: Any) -> None:
    with contextlib.suppress(pinyon.Error):
        await attempt


@every_model
async def test_a_server_goes_down_and_comes_up(model: Model, connect: Connect, own_server: Memcached) -> None:
    watcher = Watcher()
    cache = connect(own_server, on_event=watcher)
    assert await cache.set("key", "value")
    assert watcher.events == []
    own_server.stop()
    for _ in range(20):
        await swallow(cache.get("key"))
    down = await watcher.has(model, "down")
    assert down.server == own_server.address
    assert isinstance(down.error, (pinyon.ConnectError, pinyon.ConnectionLost))
    own_server.restart()
    await model.eventually(lambda: cache.get("key"))
    up = await watcher.has(model, "up")
    assert up.server == own_server.address
    assert up.duration is not None
    assert 0 < up.duration < 120
    assert [event.kind for event in watcher.events if event.kind != "retry"] == ["down", "up"]


@every_model
async def test_a_timeout_is_told(model: Model, connect: Connect) -> None:
    watcher = Watcher()
    with FaultyServer(STALL) as silent:
        cache = connect(silent, timeout=0.2, on_event=watcher)
        for _ in range(2):  # a busy loop may see the first one late
            await swallow(cache.get("key"))
        down = await watcher.has(model, "down")
    assert isinstance(down.error, pinyon.Timeout)
    assert down.server == down.error.server == silent.address


READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda cache: cache.get("key"),
    "get_many": lambda cache: cache.get_many(["key"]),
}


@every_model
@pytest.mark.parametrize("command", READS)
async def test_what_is_tried_again_is_told(model: Model, connect: Connect, command: str) -> None:
    watcher = Watcher()
    with FaultyServer(Step(cut=0)) as server:
        cache = connect(server, on_event=watcher)
        await swallow(READS[command](cache))
        retry = await watcher.has(model, "retry")
        await watcher.has(model, "down")
        assert len(server.requests) == 2
    assert len(watcher.of("retry")) == 1
    assert (retry.server, retry.command) == (server.address, command)
    assert isinstance(retry.error, pinyon.ConnectionLost)


@every_model
async def test_slow_commands_are_told_and_quick_ones_are_not(model: Model, connect: Connect) -> None:
    watcher = Watcher()
    with FaultyServer(Step(HIT), Step(HIT, delay_ms=2100)) as server:
        cache = connect(server, on_event=watcher, slow_after=2)
        assert await cache.get("key") == "value"
        assert await cache.get("key") == "value"
        slow = await watcher.has(model, "slow")
    assert (slow.kind, slow.server, slow.command) == ("slow", server.address, "get")
    assert slow.duration is not None
    assert 2 <= slow.duration < 30
    assert len(watcher.events) == 1


@every_model
async def test_slow_commands_on_many_keys_are_told(model: Model, connect: Connect) -> None:
    watcher = Watcher()
    with FaultyServer(Step("VALUE a 16 5\r\nvalue\r\nEND\r\n", delay_ms=300)) as server:
        cache = connect(server, on_event=watcher, slow_after=0.1)
        assert await cache.get_many(["a", "b"]) == {"a": "value"}
        assert (await watcher.has(model, "slow")).command == "get_many"


@every_model
async def test_what_the_callback_raises_is_reported_and_harmless(model: Model, connect: Connect) -> None:
    def fail(event: pinyon.Event) -> None:
        raise LookupError(event.kind)

    cache = connect(f"127.0.0.1:{free_port()}", on_event=fail, on_failure="miss")
    with model.reports() as reported:
        for _ in range(3):
            assert await cache.get("key") is None
        await model.until(lambda: len(reported) >= 2)
    assert {(type(error), str(error)) for error in reported} == {(LookupError, "retry"), (LookupError, "down")}


@every_model
async def test_the_callback_may_look_at_the_client(model: Model, connect: Connect) -> None:
    seen = []
    cache = connect(f"127.0.0.1:{free_port()}", on_failure="miss", on_event=lambda event: seen.append(cache.describe()))
    for _ in range(3):
        assert await cache.get("key") is None
    await model.until(lambda: seen)
    assert " down, " in seen[-1][0]
