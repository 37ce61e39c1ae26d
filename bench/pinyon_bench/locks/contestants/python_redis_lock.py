"""python-redis-lock: SET NX, then BLPOP on a list that the release fills."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import redis
import redis_lock

from ...protocol import address_of
from ..calls import LockCalls, Patched, nested


class PythonRedisLockAdapter:
    """`redis_lock.Lock` on a redis-py client."""

    def version(self) -> str:
        return f"{version('python-redis-lock')} (redis-py {version('redis')})"

    def configuration(self) -> str:
        return "Lock(client, name, expire), defaults; many names: nested, sorted"

    def connect(self, server: str, ttl: int) -> Any:
        host, port = address_of(server)
        client = redis.Redis(host, port)

        def single(name: str) -> Any:
            return redis_lock.Lock(client, name, expire=ttl)

        return LockCalls(nested(single), client.execute_command, client.close)


ADAPTER = PythonRedisLockAdapter()
GEVENT = Patched(ADAPTER)
