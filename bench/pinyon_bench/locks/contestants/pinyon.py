"""Pinyon's locks, by scripts or by plain commands."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pinyon

from ..calls import LockCalls, Names

NAMESPACE = "bench"
TIMEOUT_SECONDS = 60


class PinyonLocks:
    """`Locks` of one of Pinyon's modules, with one of its two handlers."""

    def __init__(self, module: str, handler: str) -> None:
        self._module = module
        self._handler = handler

    def version(self) -> str:
        return str(pinyon.__version__)

    def configuration(self) -> str:
        return f'{self._module}.Locks, handler="{self._handler}", otherwise defaults (one connection)'

    def connect(self, server: str, ttl: int) -> Any:
        locks = importlib.import_module(self._module).Locks(
            *_where(server), namespace=NAMESPACE, handler=self._handler, **_on_several(server, ttl)
        )

        def lock(names: Names) -> Any:
            return locks.lock(*names, ttl=ttl, timeout=TIMEOUT_SECONDS)

        return LockCalls(lock, locks.execute, locks.close)


def _where(server: str) -> tuple[Any]:
    urls = [f"redis://{each}/0" for each in server.split(",")]
    return (urls[0] if len(urls) == 1 else urls,)


def _on_several(server: str, ttl: int) -> dict[str, Any]:
    """The settings that only a quorum has."""
    return {"ttl": ttl, "longest_ttl": ttl} if "," in server else {}


class PinyonAsyncLocks(PinyonLocks):
    """The same for asyncio."""

    async def connect(self, server: str, ttl: int) -> LockCalls:
        calls: LockCalls = super().connect(server, ttl)

        async def close() -> None:
            closing = calls.close()
            if inspect.isawaitable(closing):
                await closing

        return LockCalls(calls.lock, calls.execute, close)


SCRIPT = PinyonLocks("pinyon", "script")
PURE = PinyonLocks("pinyon", "pure")
GEVENT_SCRIPT = PinyonLocks("pinyon.gevent", "script")
GEVENT_PURE = PinyonLocks("pinyon.gevent", "pure")
ASYNCIO_SCRIPT = PinyonAsyncLocks("pinyon.aio", "script")
ASYNCIO_PURE = PinyonAsyncLocks("pinyon.aio", "pure")
