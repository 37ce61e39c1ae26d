"""The lock libraries that take part, with module and concurrency model."""

from __future__ import annotations

from ..names import ASYNCIO, BLOCKING, GEVENT
from .workloads import (
    APART,
    FAR,
    HANDOVER,
    MUTEX,
    PAIR,
    PERMITS,
    PING,
    PIPELINED,
    QUORUM,
    RATE,
    READ,
    READERS,
    SECTION,
    WRITERS,
    group_of,
)

#: Client, module and adapter in `locks.contestants`, model. The reference for comparisons comes first.
LOCK_CONTESTANTS = (
    ("Pinyon script", "pinyon.SCRIPT", BLOCKING),
    ("Pinyon pure", "pinyon.PURE", BLOCKING),
    ("redis-py", "redis_py", BLOCKING),
    ("python-redis-lock", "python_redis_lock", BLOCKING),
    ("redlock-py", "redlock_py", BLOCKING),
    ("pottery", "pottery", BLOCKING),
    ("Pinyon script", "pinyon.GEVENT_SCRIPT", GEVENT),
    ("Pinyon pure", "pinyon.GEVENT_PURE", GEVENT),
    ("redis-py", "redis_py.GEVENT", GEVENT),
    ("python-redis-lock", "python_redis_lock.GEVENT", GEVENT),
    ("Pinyon script", "pinyon.ASYNCIO_SCRIPT", ASYNCIO),
    ("Pinyon pure", "pinyon.ASYNCIO_PURE", ASYNCIO),
    ("redis-py", "redis_py.ASYNCIO", ASYNCIO),
    ("aioredlock", "aioredlock", ASYNCIO),
    ("coredis", "coredis", ASYNCIO),
    ("limits", "limits", BLOCKING),
    ("limits", "limits.ASYNCIO", ASYNCIO),
)
#: Those whose locks can be held on a majority of several servers.
OF_SEVERAL = ("Pinyon script", "redlock-py", "pottery", "aioredlock")
QUORUM_GROUPS = (group_of(QUORUM), group_of(QUORUM, APART), group_of(QUORUM, FAR))
#: The groups of rows for libraries, and those for the floor.
LIBRARY_GROUPS = (
    *(group_of(workload) for workload in (PING, PAIR, MUTEX, SECTION, HANDOVER, WRITERS)),
    *(group_of(workload, FAR) for workload in (PING, HANDOVER)),
)
#: What only Pinyon has, and what only rate limiters have beside it.
SHARING_GROUPS = tuple(group_of(workload) for workload in (READ, PERMITS, READERS))
RATE_GROUPS = (group_of(RATE),)
#: Which groups a client takes part in, unless it has locks and nothing else.
GROUPS = {
    "Pinyon script": LIBRARY_GROUPS + SHARING_GROUPS + RATE_GROUPS,
    "Pinyon pure": LIBRARY_GROUPS + SHARING_GROUPS + RATE_GROUPS,
    "limits": RATE_GROUPS,
}
FLOOR_GROUPS = (*(group_of(workload) for workload in (PING, PAIR, PIPELINED)), group_of(PING, FAR))


def groups_of(client: str) -> tuple[str, ...]:
    """Returns the groups of rows in which a lock library takes part."""
    return GROUPS.get(client, LIBRARY_GROUPS) + (QUORUM_GROUPS if client in OF_SEVERAL else ())
