"""The client for asyncio and uvloop: the methods of ``pinyon.Client``, awaited.

All tasks of an event loop share one connection to each server. What they submit in one turn of the loop leaves in one
send, and what has arrived is taken in one receive.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from typing import TYPE_CHECKING, Any, Callable

from pinyon import locks as _locks
from pinyon._batch import BaseBatch
from pinyon.client import BaseClient
from pinyon.errors import LockLost
from pinyon.locks import BaseHeld, BaseLock, BaseLocks, LockStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable
    from types import TracebackType

    from typing_extensions import Self

    from pinyon import _native


class _Driver:
    """Tells one event loop what its connections wait for."""

    NO_LOOP = "a client of pinyon.aio is used inside a running event loop; outside of one, use a blocking one of pinyon"
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


class Held(BaseHeld):
    """A lock that is held: all its names, until it is given back or lost."""

    __slots__ = ()

    def release(self) -> Awaitable[bool]:
        """Give it back. The result tells whether it was held to the end; it is given back at once, awaited or not."""
        return self._grant.release()  # type: ignore[return-value]

    def extend(self, ttl: float) -> Awaitable[bool]:
        """Let it last for ``ttl`` seconds from now. The result tells whether it is held still."""
        return self._grant.extend(ttl)  # type: ignore[return-value]

    async def wait(self, timeout: float | None = None) -> bool:
        """Give the names back until somebody who holds them notifies, then take them again.

        Returns whether it was notified; False when ``timeout`` seconds passed before. As with any condition, look
        again whether what was waited for is so. Raises ``LockTimeout`` when the names cannot be had again within
        the lock's own timeout.
        """
        try:
            return await self._grant.park(timeout, self._timeout)  # type: ignore[misc,no-any-return]
        except asyncio.CancelledError:
            self._grant.cancel()
            raise

    def notify(self, count: int = 1) -> Awaitable[int]:
        """Let ``count`` of those that wait on exactly these names go on, once this lock is given back."""
        return self._grant.notify(_locks.positive("count", count))  # type: ignore[return-value]

    def notify_all(self) -> Awaitable[int]:
        """Let all that wait on exactly these names go on, one after the other, once this lock is given back."""
        return self._grant.notify(0)  # type: ignore[return-value]


class Lock(BaseLock):
    """Names to be locked, and how: ``async with locks.lock("a", "b") as held: …``."""

    __slots__ = ()

    async def acquire(self) -> Held:
        """Take all names and return what is held. Raises ``LockTimeout`` when they are not to be had in time."""
        future, grant = self._locks.take(self.names, owner=self._locks._owner(), wait=self._timeout, **self._arguments)
        return self._made(Held, await _granted(future, grant))  # type: ignore[no-any-return]

    async def __aenter__(self) -> Held:
        held = await self.acquire()
        self._entered(self._locks._owner(), held)
        return held

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held = self._left()
        try:
            kept = await held.release()
        except Exception:
            if exception is None:
                raise
            return
        if not kept and exception is None:
            raise LockLost(_locks.lost_inside(held))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a coroutine function: it runs while the names are locked."""

        @functools.wraps(function)
        async def locked(*arguments: Any, **keywords: Any) -> Any:
            async with self:
                return await function(*arguments, **keywords)

        return locked


class Locks(BaseLocks):
    """Locks on one Redis or Valkey server, to be shared by all tasks of all event loops of a process.

    Its methods are those of ``pinyon.Locks``, awaited. Each event loop has its own connection. Cancelling a task that
    waits for a lock takes it out of the queue; one that gives a lock back gives it back all the same.

    Args:
        url: as for ``pinyon.Locks``, and so are the other settings.
    """

    __slots__ = ()

    _current = staticmethod(asyncio.current_task)

    def __new__(cls, url: str = _locks.DEFAULT_URL, **settings: Any) -> Self:
        return super().__new__(cls, url, loops=(asyncio._get_running_loop, _Driver), **settings)

    def lock(
        self,
        *names: str | bytes,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        reentrant: bool | None = None,
        on_lost: Callable[[Held], object] | None = None,
    ) -> Lock:
        """Return a lock on all these names, for ``async with``; its arguments are those of ``pinyon.Locks.lock``."""
        return Lock(
            self,
            names,
            self._timeout if timeout is None else timeout,
            on_lost,
            self._arguments(ttl, renew, max_hold, reentrant),
        )

    async def try_lock(
        self,
        *names: str | bytes,
        ttl: float | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        reentrant: bool | None = None,
        on_lost: Callable[[Held], object] | None = None,
    ) -> Held | None:
        """Take all names at once, or return None."""
        arguments = self._arguments(ttl, renew, max_hold, reentrant)
        future, grant = self.take(names, owner=self._owner(), wait=None, **arguments)
        if await _granted(future, grant) is None:
            return None
        return Lock(self, names, self._timeout, on_lost, arguments)._made(Held, grant)  # type: ignore[no-any-return]

    def synchronized(self, *templates: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a coroutine function: it runs while names made of its arguments are locked."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            names_of = _locks.filled(templates, function)

            @functools.wraps(function)
            async def locked(*arguments: Any, **keywords: Any) -> Any:
                async with self.lock(*names_of(arguments, keywords), **settings):
                    return await function(*arguments, **keywords)

            return locked

        return decorate

    async def status(self, *names: str | bytes) -> list[LockStatus]:
        """Return how each of these names stands."""
        return _locks.statuses(names, await self.inspect(names))

    async def is_locked(self, *names: str | bytes) -> bool:
        """Return whether any of these names is held, by whomever."""
        return _locks.any_locked(await self.inspect(names))

    async def owner(self, *names: str | bytes) -> str | None:
        """Return who holds the first of these names that is held: ``client:owner:number``."""
        return _locks.first_owner(await self.inspect(names))

    async def waiting(self, *names: str | bytes) -> int:
        """Return how many wait for any of these names."""
        return _locks.count_waiting(await self.inspect(names))

    def force_release(self, *names: str | bytes, token: int | None = None) -> Awaitable[int]:
        """Take these names from whoever holds them; the holders are told. The result is how many were held."""
        return self.take_away(names, token)  # type: ignore[no-any-return]

    def execute(self, *parts: str | bytes | int | float) -> Awaitable[Any]:
        """Send any command on the same connection; see ``pinyon.Locks.execute``."""
        return self.command(_locks.checked_command(parts))  # type: ignore[no-any-return]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


async def _granted(future: Awaitable[Any], grant: _native.Grant) -> Any:
    """Wait for a lock; whatever ends the wait takes it out of the queue."""
    try:
        return await future
    except asyncio.CancelledError:
        grant.cancel()
        raise
