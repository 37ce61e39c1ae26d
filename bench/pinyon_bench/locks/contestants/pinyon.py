"""Pinyon's locks, by scripts or by plain commands."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import replace
from functools import partial
from typing import Any

import pinyon

from ...calls import Adapter
from ..calls import LockCalls, Names
from ..workloads import RATE_LIMIT

NAMESPACE = "bench"
TIMEOUT_SECONDS = 60
PERMITS = 10


def connect(module: str, handler: str, server: str, ttl: int) -> LockCalls:
    urls = [f"redis://{each}/0" for each in server.split(",")]
    # The settings that only a quorum has.
    of_several = {"ttl": ttl, "longest_ttl": ttl} if len(urls) > 1 else {}
    where = urls if of_several else urls[0]
    locks = importlib.import_module(module).Locks(where, namespace=NAMESPACE, handler=handler, **of_several)

    def lock(names: Names) -> Any:
        return locks.lock(*names, ttl=ttl, timeout=TIMEOUT_SECONDS)

    def read(names: Names) -> Any:
        return locks.read(*names, ttl=ttl, timeout=TIMEOUT_SECONDS)

    def permits(names: Names) -> Any:
        return locks.permits(names[0], limit=PERMITS, ttl=ttl, timeout=TIMEOUT_SECONDS)

    allow = locks.rate("rate", limit=RATE_LIMIT, per=1).allow
    return LockCalls(lock, locks.execute, locks.close, read, permits, allow)


async def connect_tasks(module: str, handler: str, server: str, ttl: int) -> LockCalls:
    calls = connect(module, handler, server, ttl)

    async def close() -> None:
        closing = calls.close()
        if inspect.isawaitable(closing):
            await closing

    return replace(calls, close=close)


def _adapter(module: str, handler: str) -> Adapter:
    settings = f'{module}.Locks, handler="{handler}", otherwise defaults (one connection)'
    by = connect_tasks if module == "pinyon.aio" else connect
    return Adapter(str(pinyon.__version__), settings, partial(by, module, handler))


SCRIPT, PURE = (_adapter("pinyon", handler) for handler in ("script", "pure"))
GEVENT_SCRIPT, GEVENT_PURE = (_adapter("pinyon.gevent", handler) for handler in ("script", "pure"))
ASYNCIO_SCRIPT, ASYNCIO_PURE = (_adapter("pinyon.aio", handler) for handler in ("script", "pure"))
