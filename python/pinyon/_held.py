"""What a lock that is held, and one that is to be taken, are in every concurrency model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from pinyon import _native
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from typing import NoReturn

    from typing_extensions import Self


class BaseHeld(_native.Held):
    """A lock that is held: all its names, until it is given back or lost."""

    __slots__ = ("__weakref__",)

    @property
    def token_bytes(self) -> bytes:
        """The token as 16 hexadecimal digits, which sort as the numbers do."""
        return b"%016x" % self.token

    @property
    def is_lost(self) -> bool:
        """Whether it is not held any more, as far as this process can know."""
        return self._left() is None

    def remaining(self) -> float:
        """Return the seconds that it is held still, if nothing prolongs it; 0 when it is not held."""
        return self._left() or 0.0

    def check(self) -> None:
        """Raise ``LockLost`` unless it is held still."""
        self._check()

    def on_lost(self, callback: Callable[[Self], object]) -> None:
        """Call ``callback(held)`` once if it is lost: its ttl passed, it was deleted, or released by force.

        Threads are told by a thread of Pinyon's own, coroutines by their loop; at once, if it is lost already.
        Raises ``UsageError`` for what cannot be called, or would have to be awaited.
        """
        self._tell(callback)

    def __repr__(self) -> str:
        state = f"{self.remaining():.3f} s left" if not self.is_lost else "not held"
        return f"<{type(self).__module__}.{type(self).__qualname__} {listed(self.names)}, token {self.token}, {state}>"


class BaseLock(_native.Lock):
    """Names to be locked, and how; made by ``Locks.lock``. It can be used again and again, and by many at once."""

    __slots__ = ()

    def _not_entered(self) -> NoReturn:
        raise UsageError(f"the lock on {listed(self.names)} is left by a caller that has not entered it")

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
