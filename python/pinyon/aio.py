"""The client for asyncio and uvloop: the methods of ``pinyon.Client``, awaited.

All tasks of an event loop share one connection to each server. What they submit in one turn of the loop leaves in one
send, and what has arrived is taken in one receive.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from pinyon._batch import BaseBatch
from pinyon.client import BaseClient

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from pinyon import _native


class _Driver:
    """Tells one event loop what its connections wait for."""

    NO_LOOP = "pinyon.aio.Client is used inside a running event loop; outside of one, use pinyon.Client"
    current_greenlet = None

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        #: Where a loop makes asyncio's futures, they are made without asking it.
        self.create_future = None if type(loop.create_future()) is asyncio.Future else loop.create_future
        self._resolving: set[asyncio.Task[None]] = set()
        self._writing: set[int] = set()

    @staticmethod
    def is_over(loop: asyncio.AbstractEventLoop) -> bool:
        return loop.is_closed()

    def attach(self, driver: _native.Driver) -> None:
        self._driver = driver

    def end_turn(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon(self._driver.turn)

    def end_turn_from_outside(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._driver.turn)

    def watch(self, lane: int, fd: int, write: bool) -> None:
        self.loop.add_reader(fd, self._driver.ready, lane)
        if write:
            self.loop.add_writer(fd, self._driver.ready, lane)
            self._writing.add(fd)
        elif fd in self._writing:
            self.loop.remove_writer(fd)
            self._writing.discard(fd)

    def forget(self, lane: int, fd: int) -> None:
        if self.loop.is_closed():
            return
        self.loop.remove_reader(fd)
        if fd in self._writing:
            self.loop.remove_writer(fd)
            self._writing.discard(fd)

    def forget_inherited(self, lane: int, fd: int) -> None:
        """Leave the loop alone: its selector is the parent's, and a child runs a loop of its own."""

    def resolve(self, lane: int, name: str, port: int) -> None:
        task = self.loop.create_task(self._resolve(lane, name, port))
        self._resolving.add(task)
        task.add_done_callback(self._resolving.discard)

    async def _resolve(self, lane: int, name: str, port: int) -> None:
        addresses, why = [], "it has no address"
        try:
            found = await self.loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
            addresses = [str(address[0]) for *_, address in found]
        except OSError as error:
            why = str(error)
        self.loop.call_soon(self._driver.resolved, lane, port, addresses, why)

    def wake_in(self, seconds: float) -> None:
        self.loop.call_later(seconds, self._driver.woken)


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
        return super().__new__(
            cls, servers, loops=(asyncio._get_running_loop, _Driver), connections=connections, **settings
        )

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
