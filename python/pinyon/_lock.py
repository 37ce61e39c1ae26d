"""What locks are made of, for threads and greenlets: a lock, what is held, permits and rates."""

# tools/async_to_sync.py writes this file from _aio_lock.py: change that, and run `make signatures`.

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, Callable, TypeVar, overload

from pinyon import _native
from pinyon._blocks import BlockingLock
from pinyon._decorated import LOCKED, check_runs_inside
from pinyon._held import BaseHeld, at_least_one, without_others
from pinyon._rate_result import RateResult
from pinyon._redis_py import unknown_argument

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Literal, Never


_Function = TypeVar("_Function", bound=Callable[..., Any])


class Held(BaseHeld):
    """A lock that is held, on all its names, until it is released or lost."""

    __module__ = "pinyon.locks"
    __slots__ = ()

    def release(self) -> bool:
        """Release the lock.

        Returns:
            Whether it was held until now. False if it was lost, or released before.
        """
        held: bool = self._release()
        return held

    def extend(self, ttl: float | timedelta) -> bool:
        """Let the lock expire in ``ttl`` seconds from now, whatever is left of its time.

        Args:
            ttl: seconds, at least 0.001, or a timedelta.

        Returns:
            Whether it is still held.
        """
        held: bool = self._extend(ttl)
        return held

    def hand_over(self, ttl: float | timedelta | None = None) -> str:
        """Hand the lock over to another process, in any language. It is never free meanwhile.

        From then on it is not held here: it is neither renewed nor released, and a block that it was acquired for ends
        quietly. If no process adopts the lock by ``Locks.adopt``, it expires.

        Args:
            ttl: seconds in which it must be adopted. By default, as for the lock.

        Returns:
            The ticket: text for ``Locks.adopt``, which works once. Whoever has it can take the lock over.

        Raises:
            LockLost: the lock is not held.
            UsageError: the lock was acquired more than once (``reentrant``), or is on a quorum of servers.
        """
        ticket: str = self._hand_over(ttl)
        return ticket

    def upgrade(self, *names: str | bytes, timeout: float | timedelta | None = None) -> None:
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
        self._upgrade(names, timeout)

    def downgrade(self, *names: str | bytes) -> None:
        """Read names that the lock writes. Nobody else writes them in between, and readers that wait go on.

        The lock keeps its token.

        Args:
            names: names that the lock writes. Without any, all of them.

        Raises:
            LockLost: the lock is not held.
            UsageError: the lock does not write one of the names.
            Unsupported: the lock has ``at_least``, or is on a quorum of servers.
        """
        self._downgrade(names)

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock until another holder of the names notifies, then acquire it again.

        A lock that was acquired several times (``reentrant``) is released fully, and then acquired as often again. As
        with any condition variable, check what you wait for again: ``wait_for`` does so.

        Args:
            timeout: seconds to wait for the notification. None waits without a limit.

        Returns:
            Whether it was notified. False if ``timeout`` has passed.

        Raises:
            LockTimeout: the lock could not be acquired again within its own ``timeout``, or within 1 s if that is
                longer.
            LockLost: the lock was not held.
        """
        notified: bool = self._park(timeout)
        return notified

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until ``predicate()`` is true. It is called while the lock is held.

        Args:
            predicate: called without arguments.
            timeout: seconds to wait. None waits without a limit.

        Returns:
            What ``predicate`` returned last. It is false only if ``timeout`` has passed.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not (given := predicate()):
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return given

    def notify(self, count: int = 1) -> int:
        """Wake up waiters on exactly these names. They continue when this lock is released.

        Args:
            count: how many to wake up at most.

        Returns:
            How many were woken up.
        """
        notified: int = self._notify(at_least_one("count", count))
        return notified

    def notify_all(self) -> int:
        """Wake up all waiters on exactly these names. They continue one by one when this lock is released.

        Returns:
            How many were woken up.
        """
        notified: int = self._notify(0)
        return notified


class Lock(BlockingLock[Held]):
    """Names to lock, and how: ``with locks.lock("a", "b") as held: …``. ``Locks.lock`` makes one.

    It can be used many times, and by many threads at once.
    """

    __module__ = "pinyon.locks"
    __slots__ = ()

    @overload
    def acquire(
        self, blocking: Literal[True] = True, timeout: float | timedelta | None = None, **others: Never
    ) -> Held: ...

    @overload
    def acquire(self, blocking: bool, timeout: float | timedelta | None = None, **others: Never) -> Held | None: ...

    @without_others
    def acquire(self, blocking: bool = True, timeout: float | timedelta | None = None, **others: Never) -> Held | None:
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
        try:
            taken: Held | None = self._take(at_once, timeout)
            return taken
        except BaseException:  # a handler of signals may raise after the lock was granted
            self._untake()
            raise

    def release(self) -> bool:
        """Release what the caller acquired last with ``acquire``.

        Another thread can release it too, if only one thread has acquired something through this object.

        Returns:
            Whether it was held until now. False if it was lost, or released before.

        Raises:
            UsageError: nothing was acquired.
        """
        released: bool = self._leave(False).release()
        return released

    def extend(self, ttl: float) -> bool:
        """Let what the caller acquired last expire in ``ttl`` seconds from now, like ``Held.extend``."""
        extended: bool = self._last().extend(ttl)
        return extended

    def locked(self) -> bool:
        """Ask the server whether any of the names is held, by this process or another one."""
        is_locked: bool = self._locks.is_locked(*self.names)
        return is_locked

    def __call__(self, function: _Function) -> _Function:
        """Decorate a function: the names are locked while it runs."""
        check_runs_inside(function, LOCKED, awaited=False)

        @functools.wraps(function)
        def locked(*arguments: Any, **keywords: Any) -> Any:
            with self:
                return function(*arguments, **keywords)

        return locked  # type: ignore[return-value]


class Permits(Lock):
    """Permits of a pool: ``with locks.permits("stripe", limit=10): …``. ``Locks.permits`` makes them."""

    __module__ = "pinyon.locks"
    __slots__ = ()

    def available(self) -> int:
        """Ask the server how many permits of the pool are not held now. Others may wait for them."""
        taken: tuple[int, int] | None = self._locks._permits(self.names[0])
        used, limit = taken or (0, self._limit)
        return max(0, limit - used)

    def locked(self) -> bool:
        """Ask the server whether all permits of the pool are held."""
        return self.available() == 0


class Rate(_native.Rate):
    """How many permits a name gives in a time. ``Locks.rate`` makes one.

    It can be used many times, and by many threads at once. All rates of the same name share their permits.
    """

    __module__ = "pinyon.locks"
    __slots__ = ("_locks",)

    _locks: Any

    def allow(self, n: int = 1) -> RateResult:
        """Take ``n`` permits if they are there. It is one command, and never waits for permits.

        If the connection breaks meanwhile, the permits may have been taken: the error says so, and nothing is repeated.

        Args:
            n: how many permits to take, at most ``burst``. All of them are taken, or none.

        Returns:
            A result that is true if the permits were taken, and otherwise says when they are there.

        Raises:
            UsageError: ``n`` is more than ``burst``, so that the answer would never be yes.
        """
        return RateResult(*self._locks._rated(self, n, False, None))

    def wait(self, n: int = 1, timeout: float | timedelta | None = None) -> RateResult:
        """Wait for ``n`` permits, first come, first served, and take them.

        They are reserved at once, with one command, and this returns when their time has come. If that would be too
        late, it raises at once, and takes nothing.

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
        return RateResult(*self._locks._rated(self, n, True, timeout))

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Rate {self.name!r}: {self.limit} per {self.per:g} s, {self.burst} at once>"
