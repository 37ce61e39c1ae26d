"""redlock-py: the Redlock algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import redis
from redlock import CannotObtainLock, Redlock

from ...calls import Adapter
from ...protocol import address_of
from ..calls import LockCalls, nested

#: It cannot wait forever; the default is three tries.
TRIES = 1_000_000
MILLISECONDS = 1000


def connect(server: str, ttl: int) -> LockCalls:
    """`Redlock.lock` and `unlock`; it has no context of its own."""
    clients = [redis.Redis(*address_of(each)) for each in server.split(",")]
    manager = Redlock(clients, retry_count=TRIES)

    @contextmanager
    def single(name: str) -> Iterator[None]:
        held = manager.lock(name, ttl * MILLISECONDS)
        if not held:
            raise CannotObtainLock(name)
        try:
            yield
        finally:
            manager.unlock(held)

    def close() -> None:
        for client in clients:
            client.close()

    return LockCalls(nested(single), clients[0].execute_command, close)


ADAPTER = Adapter(
    f"{version('redlock-py')} (redis-py {version('redis')})",
    "Redlock([servers]), default delay (tries every 0.2 s), tries without end; many names: nested, sorted",
    connect,
)
