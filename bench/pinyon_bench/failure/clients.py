"""The clients and their settings: one timeout for all, and the settings with which each handles a short outage best."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..names import ASYNCIO, BLOCKING, GEVENT, UVLOOP

TIMEOUT = 0.2

Get = Callable[[str], Any]
Set = Callable[[str, str], Any]


@dataclass(frozen=True)
class Contender:
    """A client in one concurrency model, with a number of workers: threads, greenlets or tasks."""

    client: str
    model: str
    workers: int

    @property
    def name(self) -> str:
        return f"{self.client}, {self.model}, {self.workers}"


CONTENDERS = (
    Contender("Pinyon", BLOCKING, 1),
    Contender("Pinyon", BLOCKING, 8),
    Contender("Pinyon", GEVENT, 8),
    Contender("Pinyon", ASYNCIO, 8),
    Contender("Pinyon", UVLOOP, 8),
    Contender("pylibmc", BLOCKING, 1),
    Contender("pymemcache", BLOCKING, 1),
    Contender("emcache", ASYNCIO, 8),
)
SETTINGS = {
    "Pinyon": f'`timeout={TIMEOUT}, connect_timeout={TIMEOUT}, on_failure="miss"`',
    "pylibmc": "timeouts likewise, `remove_failed=1, retry_timeout=1, dead_timeout=2`",
    "pymemcache": "`HashClient`, timeouts likewise, `retry_timeout=1, dead_timeout=2, ignore_exc=True`",
    "emcache": "timeouts likewise, `purge_unhealthy_nodes=True`",
}


def pinyon_settings() -> dict[str, Any]:
    return {"timeout": TIMEOUT, "connect_timeout": TIMEOUT, "on_failure": "miss"}


def connect(contender: Contender, servers: list[str]) -> tuple[Get, Set]:
    """Returns the calls of a client that blocks, or that lets other greenlets run."""
    if contender.client == "Pinyon":
        import pinyon

        if contender.model == GEVENT:
            import pinyon.gevent

            greenlets = pinyon.gevent.Client(servers, **pinyon_settings())
            return greenlets.get, greenlets.set
        client = pinyon.Client(servers, **pinyon_settings())
        return client.get, client.set
    if contender.client == "pylibmc":
        import pylibmc

        milliseconds = int(TIMEOUT * 1000)
        behaviors = {
            **{"tcp_nodelay": True, "ketama_weighted": True, "remove_failed": 1, "retry_timeout": 1, "dead_timeout": 2},
            **{"connect_timeout": milliseconds, "_poll_timeout": milliseconds},
            **{"receive_timeout": milliseconds * 1000, "send_timeout": milliseconds * 1000},
        }
        libmemcached = pylibmc.Client(servers, behaviors=behaviors)
        return libmemcached.get, libmemcached.set
    from pymemcache import HashClient, serde

    hashed = HashClient(
        servers,
        timeout=TIMEOUT,
        connect_timeout=TIMEOUT,
        no_delay=True,
        retry_timeout=1,
        dead_timeout=2,
        ignore_exc=True,
        default_noreply=False,
        serde=serde.pickle_serde,
    )
    return hashed.get, hashed.set


async def connect_tasks(
    contender: Contender, servers: list[str]
) -> tuple[Callable[[str], Awaitable[Any]], Callable[[str, str], Awaitable[Any]]]:
    """Returns the calls of a client for asyncio or uvloop."""
    if contender.client == "Pinyon":
        import pinyon.aio

        client = pinyon.aio.Client(servers, **pinyon_settings())
        return client.get, client.set
    import emcache

    addresses = [emcache.MemcachedHostAddress(host, int(port)) for host, port in (each.split(":") for each in servers)]
    clustered = await emcache.create_client(
        addresses, timeout=TIMEOUT, connection_timeout=TIMEOUT, purge_unhealthy_nodes=True, autobatching=False
    )

    async def get(key: str) -> Any:
        item = await clustered.get(key.encode())
        return None if item is None else item.value.decode()

    async def store(key: str, value: str) -> None:
        await clustered.set(key.encode(), value.encode())

    return get, store
