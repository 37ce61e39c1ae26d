"""pottery: the Redlock algorithm with a pool of threads for every call."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import redis
from pottery import Redlock

from ...calls import Adapter
from ...protocol import address_of
from ..calls import LockCalls, nested


def connect(server: str, ttl: int) -> LockCalls:
    clients = [redis.Redis(*address_of(each)) for each in server.split(",")]
    masters = set(clients)

    def single(name: str) -> Any:
        return Redlock(key=name, masters=masters, auto_release_time=ttl)

    def close() -> None:
        for client in clients:
            client.close()

    return LockCalls(nested(single), clients[0].execute_command, close)


ADAPTER = Adapter(
    f"{version('pottery')} (redis-py {version('redis')})",
    "Redlock(key, masters, auto_release_time), defaults (tries after 0 to 0.2 s); many names: nested, sorted",
    connect,
)
