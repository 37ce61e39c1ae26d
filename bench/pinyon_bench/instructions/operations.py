"""The operations that are counted, in each concurrency model; `bench/core` has those of the core."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

from ..calls import Call
from ..wrong import WrongResult, expect

CONCURRENCIES = (1, 16, 64)
KEYS = [f"{number:036}" for number in range(100)]
VALUE = b"v" * 36
LARGE = b"v" * 102_400
STORED = dict.fromkeys(KEYS, VALUE)
#: Seconds, far more than any operation takes, even on slow processors that do something else as well.
TIMEOUT = 30.0
#: Seconds for which hot keys in memory are fresh.
FOREVER = 10_000.0
PATIENT: dict[str, Any] = {"timeout": TIMEOUT, "connect_timeout": TIMEOUT}
LOCK_TTL = 10_000


@dataclass(frozen=True)
class Operation:
    """One operation: `run(times)` repeats it, `at_once` of them together. `few` repetitions are enough to count it."""

    name: str
    few: int
    run: Callable[[int], object]
    at_once: int = 1


def blocking(address: str) -> Iterator[Operation]:
    """The blocking client."""
    import pinyon

    def operation(name: str, few: int, call: Call, *arguments: Any, gives: Any) -> Operation:
        return Operation(name, few, partial(_repeat, call, arguments, gives))

    def set_in_batch(times: int) -> None:
        with client.quiet() as batch:
            for _ in repeat(None, times):
                batch.set(KEYS[0], VALUE)

    client = pinyon.Client(address, **PATIENT)
    client.set_many({**STORED, "large": LARGE, "number": 1})
    yield operation("get", 100, client.get, KEYS[0], gives=VALUE)
    yield operation("set", 100, client.set, KEYS[0], VALUE, gives=True)
    yield operation("get:100KB", 20, client.get, "large", gives=LARGE)
    yield operation("get_many:100", 10, client.get_many, KEYS, gives=STORED)
    yield operation("incr", 100, client.incr, "number", 0, gives=1)
    yield operation("delete", 100, client.delete, "absent", gives=False)
    yield Operation("batch:set", 500, set_in_batch)
    near = pinyon.Client(address, near=pinyon.Near(fresh=FOREVER), **PATIENT)
    yield operation("near:get", 100, near.get, KEYS[0], gives=VALUE)


def in_greenlets(address: str) -> Iterator[Operation]:
    """Greenlets that share a client."""
    import gevent
    from pinyon.gevent import Client

    def run(call: Call, arguments: list[tuple[Any, ...]], gives: Any, times: int) -> None:
        gevent.joinall([gevent.spawn(_repeat, call, each, gives, times) for each in arguments], raise_error=True)

    client = Client(address, **PATIENT)
    client.set_many(STORED)
    yield from _gets_and_sets(client, run)


def on_asyncio(address: str) -> Iterator[Operation]:
    """Tasks of asyncio's own loop that share a client."""
    return _in_tasks(asyncio.new_event_loop(), address)


def on_uvloop(address: str) -> Iterator[Operation]:
    """Tasks of uvloop's loop that share a client."""
    import uvloop

    return _in_tasks(uvloop.new_event_loop(), address)


def locks(address: str) -> Iterator[Operation]:
    """A lock of one name, acquired and released by one thread: to write, to read, as a permit; and a check of a rate."""
    import pinyon

    def pairs(times: int) -> None:
        for _ in repeat(None, times):
            with client.lock("name", ttl=LOCK_TTL, timeout=TIMEOUT):
                pass

    def read(times: int) -> None:
        for _ in repeat(None, times):
            with client.read("name", ttl=LOCK_TTL, timeout=TIMEOUT):
                pass

    def permits(times: int) -> None:
        for _ in repeat(None, times):
            with client.permits("name", limit=10, ttl=LOCK_TTL, timeout=TIMEOUT):
                pass

    def rates(times: int) -> None:
        for _ in repeat(None, times):
            if not rate.allow():
                raise WrongResult("a rate that gives enough says no")

    client = pinyon.Locks(f"unix://{address}", connect_timeout=TIMEOUT)
    rate = client.rate("name", limit=10**6, per=1.0)
    yield Operation("pair", 60, pairs)
    yield Operation("read", 60, read)
    yield Operation("permits", 60, permits)
    yield Operation("rate", 60, rates)


def locks_on_asyncio(address: str) -> Iterator[Operation]:
    """The same by tasks that all want one name."""
    from pinyon.aio import Locks

    async def pairs(times: int) -> None:
        for _ in repeat(None, times):
            async with client.lock("name", ttl=LOCK_TTL, timeout=TIMEOUT):
                pass

    async def run(tasks: int, times: int) -> None:
        await asyncio.gather(*(pairs(times) for _ in range(tasks)))

    loop = asyncio.new_event_loop()
    client = Locks(f"unix://{address}", connect_timeout=TIMEOUT)
    for tasks, few in ((1, 30), (10, 6)):
        yield Operation(f"pair:{tasks}", few, partial(_complete, loop, partial(run, tasks)), tasks)


def _in_tasks(loop: asyncio.AbstractEventLoop, address: str) -> Iterator[Operation]:
    from pinyon.aio import Client

    async def gather(call: Call, arguments: list[tuple[Any, ...]], gives: Any, times: int) -> None:
        await asyncio.gather(*(_repeat_awaiting(call, each, gives, times) for each in arguments))

    def run(call: Call, arguments: list[tuple[Any, ...]], gives: Any, times: int) -> None:
        _complete(loop, partial(gather, call, arguments, gives), times)

    async def fill() -> None:
        await client.set_many(STORED)

    client = Client(address, **PATIENT)
    loop.run_until_complete(fill())
    return _gets_and_sets(client, run)


def _gets_and_sets(client: Any, run: Callable[..., None]) -> Iterator[Operation]:
    """Gets and sets by several coroutines at once, each with its own key."""
    for coroutines in CONCURRENCIES:
        keys, few = KEYS[:coroutines], 50 if coroutines == 1 else 10
        gets, sets = [(key,) for key in keys], [(key, VALUE) for key in keys]
        yield Operation(f"get:{coroutines}", few, partial(run, client.get, gets, VALUE), coroutines)
        yield Operation(f"set:{coroutines}", few, partial(run, client.set, sets, True), coroutines)


def _complete(loop: asyncio.AbstractEventLoop, work: Callable[[int], Awaitable[None]], times: int) -> None:
    loop.run_until_complete(work(times))


def _repeat(call: Call, arguments: tuple[Any, ...], gives: Any, times: int) -> None:
    """Makes a call once and checks it, then repeats it."""
    expect("call", arguments, call(*arguments), gives)
    for _ in repeat(None, times):
        call(*arguments)


async def _repeat_awaiting(call: Call, arguments: tuple[Any, ...], gives: Any, times: int) -> None:
    expect("call", arguments, await call(*arguments), gives)
    for _ in repeat(None, times):
        await call(*arguments)


#: For each prefix of operation names, the operations that are counted, on the server at an address.
MODELS: dict[str, Callable[[str], Iterator[Operation]]] = {
    "blocking": blocking,
    "gevent": in_greenlets,
    "asyncio": on_asyncio,
    "uvloop": on_uvloop,
    "locks": locks,
    "asyncio:locks": locks_on_asyncio,
}
