"""The client for asyncio and uvloop: the methods of ``pinyon.Client``, awaited.

All tasks of an event loop share one connection to each server. What they submit in one turn of the loop leaves in one
send, and what has arrived is taken in one receive.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from pinyon._batch import COMMANDS, Ledger
from pinyon.client import BaseClient
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from pinyon import _native


def _running_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio._get_running_loop()
    if loop is None:
        raise UsageError("pinyon.aio.Client is used inside a running event loop; outside of one, use pinyon.Client")
    return loop


class _Driver:
    """Tells one event loop what its connections wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._resolving: set[asyncio.Task[None]] = set()
        self._writing: set[int] = set()
        self.waiter = loop.create_future

    @staticmethod
    def is_over(loop: asyncio.AbstractEventLoop) -> bool:
        return loop.is_closed()

    def attach(self, driver: _native.Driver) -> None:
        self._driver = driver

    def end_turn(self) -> None:
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.resume(self._driver.turn())

    def watch(self, lane: int, fd: int, write: bool) -> None:
        self._loop.add_reader(fd, self._ready, lane)
        if write:
            self._loop.add_writer(fd, self._ready, lane)
            self._writing.add(fd)
        elif fd in self._writing:
            self._loop.remove_writer(fd)
            self._writing.discard(fd)

    def _ready(self, lane: int) -> None:
        self.resume(self._driver.ready(lane))

    def forget(self, lane: int, fd: int) -> None:
        if self._loop.is_closed():
            return
        self._loop.remove_reader(fd)
        if fd in self._writing:
            self._loop.remove_writer(fd)
            self._writing.discard(fd)

    def forget_inherited(self, lane: int, fd: int) -> None:
        """Leave the loop alone: its selector is the parent's, and a child runs a loop of its own."""

    def resolve(self, lane: int, name: str, port: int) -> None:
        task = self._loop.create_task(self._resolve(lane, name, port))
        self._resolving.add(task)
        task.add_done_callback(self._resolving.discard)

    async def _resolve(self, lane: int, name: str, port: int) -> None:
        addresses, why = [], "it has no address"
        try:
            found = await self._loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
            addresses = [str(address[0]) for *_, address in found]
        except OSError as error:
            why = str(error)
        self.resume(self._driver.resolved(lane, port, addresses, why))

    def wake_in(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._wake)

    def _wake(self) -> None:
        self.resume(self._driver.woken())

    def resume_soon(self, finished: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.resume, finished)

    @staticmethod
    def resume(finished: list[tuple[asyncio.Future[Any], Any, BaseException | None]] | None) -> None:
        for future, value, error in finished or ():
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


class Batch:
    """Commands whose replies are not awaited one by one: ``async with client.quiet() as batch: await batch.set(…)``.

    Leaving the block waits until every command's outcome is known, and raises ``BatchError`` if any failed.
    """

    def __init__(self, client: Client) -> None:
        self._ledger = Ledger(client)

    async def __aenter__(self) -> Self:
        self._ledger.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for waiter in self._ledger.finish(exception):
            await asyncio.wait([waiter])

    @staticmethod
    def _command(name: str) -> Any:
        async def submit(self: Batch, key: str | bytes, *arguments: Any, **settings: Any) -> None:
            for waiter in self._ledger.submit(name, key, *arguments, **settings):
                await asyncio.wait([waiter])

        submit.__name__ = name
        submit.__doc__ = f"Like ``Client.{name}``, its outcome known at the end of the block."
        return submit


for _name in COMMANDS:
    setattr(Batch, _name, Batch._command(_name))


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
        return super().__new__(cls, servers, loops=(_running_loop, _Driver), connections=connections, **settings)

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
