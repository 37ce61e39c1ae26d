"""The clients for asyncio and uvloop: the methods of ``pinyon.Client`` and ``pinyon.Locks``, awaited.

All tasks of an event loop share one connection to each server. What they submit in one turn of the loop leaves in one
send, and what has arrived is taken in one receive.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pinyon._aio_driver import LOOPS
from pinyon._aio_locks import Held, Lock, Locks
from pinyon._batch import BaseBatch
from pinyon.client import BaseClient

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Batch", "Client", "Held", "Lock", "Locks"]


class Batch(BaseBatch):
    """Commands whose replies are not awaited one by one: ``async with client.quiet() as batch: await batch.set(…)``.

    Leaving the block waits until every command's outcome is known, and raises ``BatchError`` if any failed.
    """

    current_loop = staticmethod(asyncio.get_running_loop)

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for waiter in self._finish(exception):
            await asyncio.wait([waiter])

    async def submit(self, command: str, *arguments: Any, **settings: Any) -> None:
        for waiter in self._submit(command, *arguments, **settings):
            await asyncio.wait([waiter])


class Client(BaseClient):
    """A client for one or several memcached servers, to be shared by all tasks of all event loops of a process.

    Its methods are those of ``pinyon.Client`` and return awaitables. Each event loop has its own connections, made
    when they are first needed. Cancelling a task that waits abandons its request and nothing else: the reply is
    dropped when it comes.

    Args:
        servers: as for ``pinyon.Client``, and so are the other settings.
        connections: how many connections each loop makes to each server.
    """

    __slots__ = ()

    def __new__(cls, servers: str | Iterable[str] | None = None, *, connections: int = 1, **settings: Any) -> Self:
        return super().__new__(cls, servers, loops=LOOPS, connections=connections, **settings)

    def quiet(self) -> Batch:  # type: ignore[override]
        """Return a batch of commands whose replies are not awaited one by one."""
        return Batch(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
