"""The concurrency models: how a contestant's calls run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import perf_counter
from typing import Any

from ..calls import Call, Calls
from ..model import expect
from ..names import ASYNCIO, GEVENT, UVLOOP
from ..protocol import Order
from .work import ConcurrencyModel, Item, call_each, call_name, clock_each, parts_of


def make_model(name: str) -> ConcurrencyModel:
    """Returns the concurrency model; raises ImportError when its library is absent."""
    if name == GEVENT:
        import gevent  # noqa: F401

        return Greenlets()
    if name == ASYNCIO:
        return Tasks(asyncio.new_event_loop())
    if name == UVLOOP:
        import uvloop

        return Tasks(uvloop.new_event_loop())
    return Blocking()


class Blocking:
    """One call after another."""

    def connect(self, adapter: Any, server: str, connections: int) -> Calls:
        calls: Calls = adapter.connect([server], "bytes", False)
        return calls

    def run(self, call: Call, items: list[Item], concurrency: int, order: Order, seconds: list[float] | None) -> None:
        if seconds is None:
            call_each(call, items)
        else:
            clock_each(call, items, seconds)

    def close(self, calls: Calls) -> None:
        calls.close()


class Greenlets(Blocking):
    """Greenlets of gevent's hub."""

    def run(self, call: Call, items: list[Item], concurrency: int, order: Order, seconds: list[float] | None) -> None:
        import gevent

        if seconds is None:
            jobs = [gevent.spawn(call_each, call, part) for part in parts_of(items, concurrency, order)]
        else:
            jobs = [gevent.spawn(clock_each, call, part, seconds) for part in parts_of(items, concurrency, order)]
        try:
            gevent.joinall(jobs, raise_error=True)
        except BaseException:
            gevent.killall(jobs)
            raise


class Tasks:
    """Tasks of one event loop, which runs while a request is being done and keeps its connections in between."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def connect(self, adapter: Any, server: str, connections: int) -> Calls:
        calls: Calls = self._loop.run_until_complete(adapter.connect(server, connections))
        return calls

    def run(self, call: Call, items: list[Item], concurrency: int, order: Order, seconds: list[float] | None) -> None:
        self._loop.run_until_complete(_all_tasks(call, items, concurrency, order, seconds))

    def close(self, calls: Calls) -> None:
        self._loop.run_until_complete(calls.close())


async def _all_tasks(
    call: Call, items: list[Item], concurrency: int, order: Order, seconds: list[float] | None
) -> None:
    parts = parts_of(items, concurrency, order)
    if seconds is None:
        tasks = [asyncio.ensure_future(_await_each(call, part)) for part in parts]
    else:
        tasks = [asyncio.ensure_future(_clock_each_await(call, part, seconds)) for part in parts]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        raise


async def _await_each(call: Call, items: Iterable[Item]) -> None:
    for arguments, wanted in items:
        reply = await call(*arguments)
        if reply != wanted:
            expect([call_name(call), *arguments], reply, wanted)


async def _clock_each_await(call: Call, items: Iterable[Item], seconds: list[float]) -> None:
    for arguments, wanted in items:
        start = perf_counter()
        reply = await call(*arguments)
        seconds.append(perf_counter() - start)
        if reply != wanted:
            expect([call_name(call), *arguments], reply, wanted)
