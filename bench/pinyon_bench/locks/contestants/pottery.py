"""pottery: the Redlock algorithm with a pool of threads for every call."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import redis
from pottery import Redlock

from ...protocol import address_of
from ..calls import LockCalls, nested


class PotteryAdapter:
    """`pottery.Redlock` as a context."""

    def version(self) -> str:
        return f"{version('pottery')} (redis-py {version('redis')})"

    def configuration(self) -> str:
        return "Redlock(key, masters, auto_release_time), defaults (tries after 0 to 0.2 s); many names: nested, sorted"

    def connect(self, server: str, ttl: int) -> Any:
        clients = [redis.Redis(*address_of(each)) for each in server.split(",")]
        masters = set(clients)

        def single(name: str) -> Any:
            return Redlock(key=name, masters=masters, auto_release_time=ttl)

        def close() -> None:
            for client in clients:
                client.close()

        return LockCalls(nested(single), clients[0].execute_command, close)


ADAPTER = PotteryAdapter()
