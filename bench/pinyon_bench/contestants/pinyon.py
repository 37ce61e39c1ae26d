"""Pinyon itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import pinyon

from ..calls import STORES, Calls
from ..protocol import Kind


class PinyonAdapter:
    """The default client; object rows with the pickle serializer.

    A quiet row is one `with client.quiet() as batch:` block; its gets go through the client while the batch is open.
    """

    def version(self) -> str:
        return str(pinyon.__version__)

    def configuration(self) -> str:
        return "defaults; serializer portable, for object rows pickle"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        client = pinyon.Client(servers, serializer="pickle" if kind == "object" else "portable")
        if quiet:
            return _quiet(client)
        return Calls.of(client, incr_or_create=partial(_incr_or_create, client.incr))


def _incr_or_create(incr: Any, key: str, delta: int, initial: int) -> Any:
    return incr(key, delta, initial=initial)


def _quiet(client: Any) -> Calls:
    block = client.quiet()
    batch = block.__enter__()

    def finish() -> None:
        block.__exit__(None, None, None)

    stores = {name: getattr(batch, name) for name in (*STORES, "delete")}
    return Calls(get=client.get, close=client.close, finish=finish, **stores)


class PinyonGeventAdapter(PinyonAdapter):
    """The client for gevent, chosen by name, so that it is the same whether or not the process is patched."""

    def configuration(self) -> str:
        return "pinyon.gevent.Client, defaults (one connection)"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        from pinyon.gevent import Client

        client = Client(servers)
        return Calls(get=client.get, set=client.set, close=client.close)


class PinyonAsyncioAdapter(PinyonAdapter):
    """The client for asyncio and uvloop."""

    def configuration(self) -> str:
        return "pinyon.aio.Client, defaults (one connection)"

    async def connect(self, server: str, connections: int) -> Calls:  # type: ignore[override]
        from pinyon.aio import Client

        client = Client(server)

        async def close() -> None:
            client.close()

        return Calls(get=client.get, set=client.set, close=close)


ADAPTER = PinyonAdapter()
GEVENT = PinyonGeventAdapter()
ASYNCIO = PinyonAsyncioAdapter()
