"""What locks are in every concurrency model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, TypeVar

from pinyon import _native
from pinyon._shown import showing
from pinyon._uncopied import Uncopied
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Self

_Method = TypeVar("_Method", bound=Callable[..., Any])


class BaseHeld(_native.Held, Uncopied):
    """The base of held locks of all concurrency models."""

    __slots__ = ("__weakref__",)

    @property
    def token_bytes(self) -> bytes:
        """The token as 16 hexadecimal digits, which sort like the numbers."""
        return b"%016x" % self.token

    @property
    def is_lost(self) -> bool:
        """Whether the lock is not held any more, as far as this process can know. No server is asked."""
        return self._left() is None

    def remaining(self) -> float:
        """Return the seconds until the lock expires if it is not renewed, or 0 if it is not held."""
        return self._left() or 0.0

    def check(self) -> None:
        """Raise ``LockLost`` unless the lock is still held. No server is asked."""
        self._check()

    def on_lost(self, callback: Callable[[Self], object]) -> None:
        """Call a function once if the lock is lost: it expired, was deleted, or was released by force.

        A thread of Pinyon's own calls it, or the event loop. If the lock is lost already, it is called at once.

        Args:
            callback: called with this object.

        Raises:
            UsageError: ``callback`` cannot be called, or is a coroutine function.
        """
        self._tell(callback)


class BaseLock(_native.Lock, Uncopied):
    """The base of the locks of all concurrency models."""

    __slots__ = ()

    def _at_once(self, blocking: bool, timeout: float | timedelta | None) -> bool:
        """Check the arguments of ``acquire``. Return whether it must not wait."""
        if not isinstance(blocking, bool):
            raise UsageError(f"blocking must be True or False, not {blocking!r}; to wait for so long, pass timeout=")
        if not blocking and timeout is not None:
            raise UsageError("blocking=False does not wait: leave out timeout")
        return not blocking


def at_least_one(name: str, number: int) -> int:
    """Return a number that makes sense."""
    if number < 1:
        raise UsageError(f"{name} must be at least 1, not {number}")
    return number


def without_others(method: _Method) -> _Method:
    """Hide an argument ``others``, which only takes names that are to be refused, from ``help`` and signatures."""
    return showing(method, [], "others")
