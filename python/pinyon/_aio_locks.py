"""The locks for asyncio and uvloop: the methods of ``pinyon.Locks``, awaited."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from pinyon._aio_driver import LOOPS
from pinyon._base_locks import BaseLocks
from pinyon._closing import ClosingAwaited
from pinyon._held import BaseHeld, BaseLock, at_least_one
from pinyon._lock_status import LockStatus
from pinyon._owners import number_of
from pinyon._synchronized import check_runs_inside, check_templates, filled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine
    from datetime import timedelta
    from types import TracebackType

_Function = TypeVar("_Function", bound="Callable[..., Coroutine[Any, Any, Any]]")


class Held(BaseHeld):
    """A lock that is held: all its names, until it is given back or lost."""

    __module__ = "pinyon.aio"
    __slots__ = ()

    def release(self) -> Awaitable[bool]:
        """Give it back. The result tells whether it was held to the end; it is given back at once, awaited or not."""
        held: Awaitable[bool] = self._release()
        return held

    def extend(self, ttl: float | timedelta) -> Awaitable[bool]:
        """Let it last for ``ttl`` seconds from now. The result tells whether it is held still."""
        held: Awaitable[bool] = self._extend(ttl)
        return held

    async def wait(self, timeout: float | None = None) -> bool:
        """Give the names back until somebody who holds them notifies, then take them again.

        However often they are held (``reentrant``), they are given back, and then held as often again.
        Returns whether it was notified; False when ``timeout`` seconds passed before. As with any condition, look
        again whether what was waited for is so. Raises ``LockTimeout`` when the names cannot be had again within
        the lock's own timeout, or a second if that is longer, and ``LockLost`` when they are not held. A task that
        is cancelled meanwhile does not hold them any more.
        """
        notified: bool = await _had(self._park(timeout), self)
        return notified

    async def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until ``predicate()`` is true, and return what it gave; what it gave last when ``timeout`` passed.

        What the predicate returns is awaited, if it can be.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not (given := await _result(predicate)):
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            await self.wait(left)
        return given

    def notify(self, count: int = 1) -> Awaitable[int]:
        """Let ``count`` of those that wait on exactly these names go on, once this lock is given back."""
        notified: Awaitable[int] = self._notify(at_least_one("count", count))
        return notified

    def notify_all(self) -> Awaitable[int]:
        """Let all that wait on exactly these names go on, one after the other, once this lock is given back."""
        notified: Awaitable[int] = self._notify(0)
        return notified


class Lock(BaseLock):
    """Names to be locked, and how: ``async with locks.lock("a", "b") as held: …``."""

    __module__ = "pinyon.aio"
    __slots__ = ()

    async def acquire(self) -> Held:
        """Take all names and return what is held. Raises ``LockTimeout`` when they are not to be had in time."""
        held = Held(self)
        await _had(held._answer(), held)
        if self._on_lost is not None:
            held.on_lost(self._on_lost)
        return held

    async def __aenter__(self) -> Held:
        held = await self.acquire()
        self._enter(held)
        return held

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held: Held = self._leave() or self._not_entered()
        if held._given_back:
            return
        try:
            kept = await held._release()
        except Exception:
            if exception is None:
                raise
            return
        if not kept and exception is None:
            raise held._lost_inside()

    def __call__(self, function: _Function) -> _Function:
        """Decorate a coroutine function: it runs while the names are locked."""
        check_runs_inside(function, awaited=True)

        @functools.wraps(function)
        async def locked(*arguments: Any, **keywords: Any) -> Any:
            async with self:
                return await function(*arguments, **keywords)

        return locked  # type: ignore[return-value]


class Locks(BaseLocks, ClosingAwaited):
    """Locks on one Redis or Valkey server, to be shared by all tasks of all event loops of a process.

    Its methods are those of ``pinyon.Locks``, awaited. Each event loop has its own connection. Cancelling a task that
    waits for a lock takes it out of the queue; one that gives a lock back gives it back all the same.

    Args:
        url: as for ``pinyon.Locks``, and so are the other settings.
    """

    __module__ = "pinyon.aio"
    __slots__ = ()

    _loops = LOOPS

    @staticmethod
    def _owner() -> int:
        return number_of(asyncio.current_task())

    def lock(
        self,
        *names: str | bytes,
        ttl: float | timedelta | None = None,
        timeout: float | timedelta | None = None,
        renew: bool = True,
        max_hold: float | timedelta | None = None,
        reentrant: bool | None = None,
        on_lost: Callable[[Held], object] | None = None,
    ) -> Lock:
        """Return a lock on all these names, for ``async with``; its arguments are those of ``pinyon.Locks.lock``."""
        return Lock(self, names, ttl, timeout, renew, max_hold, reentrant, on_lost)

    async def try_lock(
        self,
        *names: str | bytes,
        ttl: float | timedelta | None = None,
        renew: bool = True,
        max_hold: float | timedelta | None = None,
        reentrant: bool | None = None,
        on_lost: Callable[[Held], object] | None = None,
    ) -> Held | None:
        """Take all names at once, or return None."""
        held = Held(Lock(self, names, ttl, None, renew, max_hold, reentrant, on_lost), True)
        if await _had(held._answer(), held) is None:
            return None
        if on_lost is not None:
            held.on_lost(on_lost)
        return held

    def synchronized(self, *templates: str, **settings: Any) -> Callable[[_Function], _Function]:
        """Decorate a coroutine function: it runs while names made of its arguments are locked.

        ``settings`` are those of :meth:`lock`.
        """
        check_templates(templates)

        def decorate(function: _Function) -> _Function:
            check_runs_inside(function, awaited=True)
            names_of = filled(templates, function)

            @functools.wraps(function)
            async def locked(*arguments: Any, **keywords: Any) -> Any:
                async with self.lock(*names_of(arguments, keywords), **settings):
                    return await function(*arguments, **keywords)

            return locked  # type: ignore[return-value]

        return decorate

    async def status(self, *names: str | bytes) -> list[LockStatus]:
        """Return how each of these names stands."""
        statuses: list[LockStatus] = await self._inspect(names, "each")
        return statuses

    async def is_locked(self, *names: str | bytes) -> bool:
        """Return whether any of these names is held, by whomever."""
        locked: bool = await self._inspect(names, "is_locked")
        return locked

    async def owner(self, *names: str | bytes) -> str | None:
        """Return who holds the first of these names that is held: ``client:owner:number``."""
        owner: str | None = await self._inspect(names, "first_owner")
        return owner

    async def waiting(self, *names: str | bytes) -> int:
        """Return how many wait for any of these names."""
        waiting: int = await self._inspect(names, "waiting")
        return waiting

    def force_release(self, *names: str | bytes, token: int | None = None) -> Awaitable[int]:
        """Take these names from whoever holds them; the holders are told. The result is how many were held.

        ``token``: only where the holder's is this one.
        """
        released: Awaitable[int] = self.take_away(names, token)
        return released

    def execute(self, *parts: str | bytes | int | float) -> Awaitable[Any]:
        """Send any command on the same connection; see ``pinyon.Locks.execute``."""
        reply: Awaitable[Any] = self.command(parts)
        return reply


async def _had(future: Awaitable[Any], held: Held) -> Any:
    """Wait for a lock; whatever else ends the wait takes it out of the queue, or gives it back."""
    try:
        return await future
    except Exception:
        raise
    except BaseException:
        held._cancel()
        raise


async def _result(predicate: Callable[[], Any]) -> Any:
    given = predicate()
    return await given if inspect.isawaitable(given) else given
