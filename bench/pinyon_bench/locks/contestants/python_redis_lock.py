"""python-redis-lock: SET NX, then BLPOP on a list that the release fills."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import redis
import redis_lock

from ...calls import Adapter
from ...protocol import address_of
from ..calls import LockCalls, nested


def connect(server: str, ttl: int) -> LockCalls:
    client = redis.Redis(*address_of(server))

    def single(name: str) -> Any:
        return redis_lock.Lock(client, name, expire=ttl)

    return LockCalls(nested(single), client.execute_command, client.close)


ADAPTER = Adapter(
    f"{version('python-redis-lock')} (redis-py {version('redis')})",
    "Lock(client, name, expire), defaults; many names: nested, sorted",
    connect,
)
GEVENT = ADAPTER.patched()
