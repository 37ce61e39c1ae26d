"""coredis: SET NX, repeated every 0.1 seconds."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

import coredis
from coredis.patterns.lock import Lock

from ...calls import Adapter
from ...protocol import address_of
from ..calls import LockCalls, nested_async


async def connect(server: str, ttl: int) -> LockCalls:
    host, port = address_of(server)
    client = coredis.Redis(host=host, port=port)
    ready, done = asyncio.Event(), asyncio.Event()

    async def keep_open() -> None:
        # Its pool is a task group, which must end in the task that began it.
        async with client:
            ready.set()
            await done.wait()

    keeper = asyncio.ensure_future(keep_open())
    await asyncio.wait([keeper, waiting := asyncio.ensure_future(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
    if keeper.done():
        waiting.cancel()
        keeper.result()

    def single(name: str) -> Any:
        return Lock(client, name, timeout=ttl)

    async def execute(*command: str) -> Any:
        return await getattr(client, METHODS.get(command[0], command[0].lower()))(*_arguments(command))

    async def close() -> None:
        done.set()
        await keeper

    return LockCalls(nested_async(single), execute, close)


METHODS = {"DEL": "delete"}


def _arguments(command: tuple[str, ...]) -> tuple[Any, ...]:
    """Returns the arguments in the form of the command's method."""
    return (list(command[1:]),) if command[0] == "DEL" else command[1:]


ADAPTER = Adapter(
    version("coredis"),
    "Lock(client, name, timeout), defaults (tries every 0.1 s); many names: nested, sorted",
    connect,
)
