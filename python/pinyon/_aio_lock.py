"""What locks are made of, for asyncio and uvloop: a lock, what is held, permits and rates."""

# tools/async_to_sync.py writes _lock.py, the same for threads, from this file: run `make signatures` after a change.

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, Callable, TypeVar, overload

from pinyon import _native
from pinyon._aio_replies import awaited
from pinyon._blocks import AwaitedLock, changed, had, result_of
from pinyon._decorated import LOCKED, check_runs_inside
from pinyon._held import BaseHeld, at_least_one, without_others
from pinyon._rate_result import RateResult
from pinyon._redis_py import unknown_argument

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import timedelta

    from typing_extensions import Literal, Never

    from pinyon._aio_replies import Reply

_Function = TypeVar("_Function", bound="Callable[..., Coroutine[Any, Any, Any]]")


class Held(BaseHeld):
    """A lock that is held, on all its names, until it is released or lost."""

    __module__ = "pinyon.aio"
    __slots__ = ()

    @awaited
    def release(self) -> Reply[bool]:
        """Release the lock. The request is sent even if the result is not awaited.

        Returns:
            A future of whether it was held until now. False if it was lost, or released before.
        """
        held: Reply[bool] = self._release()
        return held

    @awaited
    def extend(self, ttl: float | timedelta) -> Reply[bool]:
        """Let the lock expire in ``ttl`` seconds from now, whatever is left of its time.

        Args:
            ttl: seconds, at least 0.001, or a timedelta.

        Returns:
            A future of whether it is still held.
        """
        held: Reply[bool] = self._extend(ttl)
        return held

    @awaited
    def hand_over(self, ttl: float | timedelta | None = None) -> Reply[str]:
        """Hand the lock over to another process, in any language. It is never free meanwhile.

        From then on it is not held here: it is neither renewed nor released, and a block that it was acquired for ends
        quietly. If no process adopts the lock by ``Locks.adopt``, it expires.

        Args:
            ttl: seconds in which it must be adopted. By default, as for the lock.

        Returns:
            A future of the ticket: text for ``Locks.adopt``, which works once. Whoever has it can take the lock over.

        Raises:
            LockLost: the lock is not held.
            UsageError: the lock was acquired more than once (``reentrant``), or is on a quorum of servers.
        """
        ticket: Reply[str] = self._hand_over(ttl)
        return ticket

    async def upgrade(self, *names: str | bytes, timeout: float | timedelta | None = None) -> None:
        """Write names that the lock reads. Nobody else writes them in between.

        If nobody else reads them, this is granted at once. Otherwise it waits for the others, and those who come later
        wait for it. The lock gets a new token, which is higher than all before.

        Args:
            names: names that the lock reads. Without any, all of them.
            timeout: seconds to wait for others that read them. By default, as for the lock. 0 does not wait.

        Raises:
            LockTimeout: others still read them. The lock reads them as before.
            Deadlock: another lock that reads them waits to write them, or for something else that you hold. The
                lock reads them as before.
            LockLost: the lock is not held.
            UsageError: the lock does not read one of the names.
            Unsupported: the lock is on a quorum of servers.
        """
        await changed(self._upgrade(names, timeout), self)

    async def downgrade(self, *names: str | bytes) -> None:
        """Read names that the lock writes. Nobody else writes them in between, and readers that wait go on.

        The lock keeps its token.

        Args:
            names: names that the lock writes. Without any, all of them.

        Raises:
            LockLost: the lock is not held.
            UsageError: the lock does not write one of the names.
            Unsupported: the lock has ``at_least``, or is on a quorum of servers.
        """
        await changed(self._downgrade(names), self)

    async def wait(self, timeout: float | None = None) -> bool:
        """Release the lock until another holder of the names notifies, then acquire it again.

        A lock that was acquired several times (``reentrant``) is released fully, and then acquired as often again. As
        with any condition variable, check what you wait for again: ``wait_for`` does so.

        A task that is cancelled meanwhile does not hold the lock any more.

        Args:
            timeout: seconds to wait for the notification. None waits without a limit.

        Returns:
            Whether it was notified. False if ``timeout`` has passed.

        Raises:
            LockTimeout: the lock could not be acquired again within its own ``timeout``, or within 1 s if that is
                longer.
            LockLost: the lock was not held.
        """
        notified: bool = await had(self._park(timeout), self)
        return notified

    async def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until ``predicate()`` is true. It is called while the lock is held.

        Args:
            predicate: called without arguments. If it returns an awaitable, that is awaited.
            timeout: seconds to wait. None waits without a limit.

        Returns:
            What ``predicate`` returned last. It is false only if ``timeout`` has passed.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not (given := await result_of(predicate)):
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            await self.wait(left)
        return given

    @awaited
    def notify(self, count: int = 1) -> Reply[int]:
        """Wake up waiters on exactly these names. They continue when this lock is released.

        Args:
            count: how many to wake up at most.

        Returns:
            A future of how many were woken up.
        """
        notified: Reply[int] = self._notify(at_least_one("count", count))
        return notified

    @awaited
    def notify_all(self) -> Reply[int]:
        """Wake up all waiters on exactly these names. They continue one by one when this lock is released.

        Returns:
            A future of how many were woken up.
        """
        notified: Reply[int] = self._notify(0)
        return notified


class Lock(AwaitedLock[Held]):
    """Names to lock, and how: ``async with locks.lock("a", "b") as held: …``. ``Locks.lock`` makes one.

    It can be used many times, and by many tasks at once.
    """

    __module__ = "pinyon.aio"
    __slots__ = ()

    @overload
    def acquire(
        self, blocking: Literal[True] = True, timeout: float | timedelta | None = None, **others: Never
    ) -> Coroutine[Any, Any, Held]: ...

    @overload
    def acquire(
        self, blocking: bool, timeout: float | timedelta | None = None, **others: Never
    ) -> Coroutine[Any, Any, Held | None]: ...

    @awaited
    @without_others
    def acquire(
        self, blocking: bool = True, timeout: float | timedelta | None = None, **others: Never
    ) -> Coroutine[Any, Any, Held | None]:
        """Acquire all names. They are held until ``release`` is called here or on what is returned.

        Args:
            blocking: False does not wait.
            timeout: seconds to wait, instead of the lock's own ``timeout``.

        Returns:
            What is held, which is always true. None if the names are not free and ``blocking`` is False.

        Raises:
            LockTimeout: the names could not be acquired in time.
            UsageError: ``blocking=False`` was given together with ``timeout``.
        """
        if others:
            raise unknown_argument("acquire", others)
        at_once = self._at_once(blocking, timeout)
        if True:  # ASYNC
            return self._acquire(at_once, timeout)
        else:
            try:
                taken: Held | None = self._take(at_once, timeout)
                return taken
            except BaseException:  # a handler of signals may raise after the lock was granted
                self._untake()
                raise

    @awaited
    def release(self) -> Reply[bool]:
        """Release what the caller acquired last with ``acquire``.

        Another task can release it too, if only one task has acquired something through this object.

        Returns:
            A future of whether it was held until now. False if it was lost, or released before.

        Raises:
            UsageError: nothing was acquired.
        """
        released: Reply[bool] = self._leave(False).release()
        return released

    @awaited
    def extend(self, ttl: float) -> Reply[bool]:
        """Let what the caller acquired last expire in ``ttl`` seconds from now, like ``Held.extend``."""
        extended: Reply[bool] = self._last().extend(ttl)
        return extended

    async def locked(self) -> bool:
        """Ask the server whether any of the names is held, by this process or another one."""
        is_locked: bool = await self._locks.is_locked(*self.names)
        return is_locked

    def __call__(self, function: _Function) -> _Function:
        """Decorate a coroutine function: the names are locked while it runs."""
        check_runs_inside(function, LOCKED, awaited=True)

        @functools.wraps(function)
        async def locked(*arguments: Any, **keywords: Any) -> Any:
            async with self:
                return await function(*arguments, **keywords)

        return locked  # type: ignore[return-value]


class Permits(Lock):
    """Permits of a pool: ``async with locks.permits("stripe", limit=10): …``. ``Locks.permits`` makes them."""

    __module__ = "pinyon.aio"
    __slots__ = ()

    async def available(self) -> int:
        """Ask the server how many permits of the pool are not held now. Others may wait for them."""
        taken: tuple[int, int] | None = await self._locks._permits(self.names[0])
        used, limit = taken or (0, self._limit)
        return max(0, limit - used)

    async def locked(self) -> bool:
        """Ask the server whether all permits of the pool are held."""
        return await self.available() == 0


class Rate(_native.Rate):
    """How many permits a name gives in a time. ``Locks.rate`` makes one.

    It can be used many times, and by many tasks at once. All rates of the same name share their permits.
    """

    __module__ = "pinyon.aio"
    __slots__ = ("_locks",)

    _locks: Any

    async def allow(self, n: int = 1) -> RateResult:
        """Take ``n`` permits if they are there. It is one command, and never waits for permits.

        If the connection breaks meanwhile, the permits may have been taken: the error says so, and nothing is repeated.

        Args:
            n: how many permits to take, at most ``burst``. All of them are taken, or none.

        Returns:
            A result that is true if the permits were taken, and otherwise says when they are there.

        Raises:
            UsageError: ``n`` is more than ``burst``, so that the answer would never be yes.
        """
        return RateResult(*await self._locks._rated(self, n, False, None))

    async def wait(self, n: int = 1, timeout: float | timedelta | None = None) -> RateResult:
        """Wait for ``n`` permits, first come, first served, and take them.

        They are reserved at once, with one command, and this returns when their time has come. If that would be too
        late, it raises at once, and takes nothing. A task that is cancelled meanwhile has used its permits.

        Args:
            n: how many permits to take, at most ``burst``.
            timeout: seconds to wait. 0 does not wait, ``math.inf`` waits without a limit. By default, as for the
                client.

        Returns:
            A result that is true.

        Raises:
            LockTimeout: the permits are not there in time.
            UsageError: ``n`` is more than ``burst``.
        """
        return RateResult(*await self._locks._rated(self, n, True, timeout))

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Rate {self.name!r}: {self.limit} per {self.per:g} s, {self.burst} at once>"
