"""Pinyon itself: the default client; object rows with the pickle serializer."""

from __future__ import annotations

from typing import Any

import pinyon

from ..calls import STORES, Adapter, Calls
from ..protocol import Kind

VERSION = str(pinyon.__version__)


def connect(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    client = pinyon.Client(servers, serializer="pickle" if kind == "object" else "portable")

    def incr_or_create(key: str, delta: int, initial: int) -> Any:
        return client.incr(key, delta, initial=initial)

    return _quiet(client) if quiet else Calls.of(client, incr_or_create=incr_or_create)


def _quiet(client: Any) -> Calls:
    """One `with client.quiet() as batch:` block; gets go through the client while the batch is open."""
    block = client.quiet()
    batch = block.__enter__()

    def finish() -> None:
        block.__exit__(None, None, None)

    stores = {name: getattr(batch, name) for name in (*STORES, "delete")}
    return Calls(get=client.get, close=client.close, finish=finish, **stores)


def connect_greenlets(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    """The client for gevent, chosen by name, so that it is the same whether or not the process is patched."""
    from pinyon.gevent import Client

    client = Client(servers)
    return Calls(get=client.get, set=client.set, close=client.close)


async def connect_tasks(server: str, connections: int, **settings: Any) -> Calls:
    from pinyon.aio import Client

    client = Client(server, **settings)

    async def close() -> None:
        client.close()

    return Calls(get=client.get, set=client.set, close=close)


def connect_near(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    return Calls.of(pinyon.Client(servers, near=True))


async def connect_near_tasks(server: str, connections: int) -> Calls:
    return await connect_tasks(server, connections, near=True)


ADAPTER = Adapter(VERSION, "defaults; serializer portable, for object rows pickle", connect)
GEVENT = Adapter(VERSION, "pinyon.gevent.Client, defaults (one connection)", connect_greenlets)
NEAR = Adapter(VERSION, "near=True", connect_near)
NEAR_TASKS = Adapter(VERSION, "pinyon.aio.Client, near=True (one connection)", connect_near_tasks)
#: For asyncio and uvloop.
ASYNCIO = Adapter(VERSION, "pinyon.aio.Client, defaults (one connection)", connect_tasks)
