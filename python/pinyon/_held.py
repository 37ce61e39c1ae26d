"""What a lock that is held, and one that is to be taken, are in every concurrency model."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from pinyon.errors import LockLost, UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pinyon import _native
    from pinyon._base_locks import BaseLocks, Terms

_Held = TypeVar("_Held", bound="BaseHeld")

#: For how many seconds at least a condition's wait tries to take its names again.
RELOCK_AT_LEAST = 1.0


class BaseHeld:
    """A lock that is held: all its names, until it is given back or lost."""

    __slots__ = ("__weakref__", "_given_back", "_grant", "_lock")

    def __init__(self, lock: BaseLock, grant: _native.Grant) -> None:
        #: By it, what renews it lives as long as it does.
        self._lock = lock
        self._grant = grant
        self._given_back = False

    @property
    def names(self) -> tuple[str | bytes, ...]:
        """The names, as they were asked for."""
        return self._lock.names

    @property
    def _relock(self) -> float:
        return max(self._lock._timeout, RELOCK_AT_LEAST)

    @property
    def token(self) -> int:
        """The fencing token: higher than that of any earlier lock on any of the names.

        Whatever is written under the lock can refuse writers with lower tokens: a holder that was stopped for longer
        than the ttl does not know that it has lost the lock.
        """
        return self._grant.token

    @property
    def token_bytes(self) -> bytes:
        """The token as 16 hexadecimal digits, which sort as the numbers do."""
        return b"%016x" % self._grant.token

    @property
    def is_lost(self) -> bool:
        """Whether it is not held any more, as far as this process can know."""
        return self._grant.remaining() is None

    def remaining(self) -> float:
        """Return the seconds that it is held still, if nothing prolongs it; 0 when it is not held."""
        return self._grant.remaining() or 0.0

    def check(self) -> None:
        """Raise ``LockLost`` unless it is held still."""
        if self._grant.remaining() is None:
            why = self._why_lost() or "it was given back, or its ttl has passed"
            raise LockLost(f"the lock on {listed(self.names)} is not held any more: {why}")

    def on_lost(self, callback: Callable[[Self], object]) -> None:
        """Call ``callback(held)`` once if it is lost: its ttl passed, it was deleted, or released by force.

        Threads are told by a thread of Pinyon's own, coroutines by their loop.
        """
        self._grant.on_lost(functools.partial(callback, self))

    def _why_lost(self) -> str | None:
        return self._grant.lost or ("its locks were closed" if self._lock._locks.is_closed else None)

    def _lost_inside(self) -> LockLost:
        why = self._why_lost() or "its ttl has passed, or somebody took it away"
        return LockLost(f"the lock on {listed(self.names)} was lost before it was given back: {why}")

    def __repr__(self) -> str:
        state = f"{self.remaining():.3f} s left" if not self.is_lost else "not held"
        return f"<{type(self).__module__}.{type(self).__qualname__} {listed(self.names)}, token {self.token}, {state}>"


class BaseLock:
    """Names to be locked, and how; made by ``Locks.lock``. It can be used again and again, and by many at once."""

    __slots__ = ("_entered", "_locks", "_on_lost", "_terms", "_timeout", "names")

    def __init__(
        self,
        locks: BaseLocks,
        names: tuple[str | bytes, ...],
        timeout: float,
        on_lost: Callable[[Any], object] | None,
        terms: Terms,
    ) -> None:
        self._locks = locks
        self.names = names
        self._timeout = timeout
        self._on_lost = on_lost
        self._terms = terms
        #: What each owner holds by ``with``.
        self._entered: dict[int, list[Any]] = {}

    def _told(self, held: _Held) -> _Held:
        """Return what is held, which is to be told of if it is lost."""
        if self._on_lost is not None:
            held.on_lost(self._on_lost)
        return held

    def _enter(self, owner: int, held: Any) -> None:
        self._entered.setdefault(owner, []).append(held)

    def _leave(self) -> Any:
        """Return what the caller has entered; another task may leave for the only one that has."""
        owner = next(iter(self._entered)) if len(self._entered) == 1 else self._locks._owner()
        stack = self._entered.get(owner)
        if stack is None:
            raise UsageError(f"the lock on {listed(self.names)} is left by somebody who has not entered it")
        held = stack.pop()
        if not stack:
            del self._entered[owner]
        return held

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} on {listed(self.names)}>"


def listed(names: tuple[str | bytes, ...]) -> str:
    """Return the first few of the names, for people to read."""
    few = ", ".join(repr(name) for name in names[:3])
    return few if len(names) <= 3 else f"{few} and {len(names) - 3} more"


def at_least_one(name: str, number: int) -> int:
    """Return a number that makes sense."""
    if number < 1:
        raise UsageError(f"{name} must be at least 1, not {number}")
    return number
