"""Leases: the right to make a missing value. ``get_or_set`` does all of this by itself."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from pinyon import _native
from pinyon._closing import FOR_THREADS
from pinyon._settings import DEFAULT_TTL
from pinyon._uncopied import Uncopied
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from typing_extensions import Self

    from pinyon._steps import Steps


__all__ = ["Lease", "Outcome"]


class Outcome(enum.Enum):
    """The result of asking for a lease."""

    #: The value is fresh.
    HIT = "hit"
    #: The value is stale or expires soon. Another caller makes a new one.
    STALE = "stale"
    #: This caller must make the value. There may be a stale one meanwhile.
    WON = "won"
    #: There is no value. Another caller makes it.
    FILLING = "filling"


def ask_lease(
    client: _native.Client, key: str | bytes, lease: float | timedelta, recache: float | timedelta = 0
) -> Steps:
    """Ask for a lease. If the client cannot read the value, one caller wins the right to replace it."""
    found = yield client._ask_lease(key, lease, recache)
    for _ in range(_native.RENEWALS):
        if found.unreadable is None:
            break
        found = yield client._ask_lease(key, lease, recache, found.unreadable)
    return found


class BaseLease(Uncopied):
    """The base of the leases for threads and for asyncio.

    Attributes:
        key: the key, as it was given.
        state: the ``Outcome``.
        value: the value, or None if ``has_value`` is false. If the state is ``WON``, it is a stale value.
        has_value: whether there is a value, which can be None.
    """

    __slots__ = ("_client", "_found", "_win", "has_value", "key", "value")

    def __init__(self, client: _native.Client, key: str | bytes, found: _native.Found) -> None:
        self._client = client
        self._found = found
        self._win = found.win
        self.key: str | bytes = key
        self.value: Any = found.value
        self.has_value: bool = found.has_value

    # A lease whose state nobody has looked at is given back when it is dropped: its caller was interrupted.
    @property
    def state(self) -> Outcome:
        """The ``Outcome``."""
        return Outcome(self._found.state)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {self.key!r} {self.state.name}>"

    @property
    def _is_to_return(self) -> bool:
        """Whether the end of a block gives the lease back: in the process that won it, not in a forked child."""
        return self._win is not None and self._found.is_own

    def _enter(self) -> None:
        """Take note of a block that gives the lease back at its end, even if it is interrupted there."""
        if self._is_to_return:
            self._found.enter()

    def _over(self) -> None:
        """Take note that the lease was fulfilled or given back."""
        self._win = None
        self._found.settle()

    def _won(self) -> tuple[int, bool] | None:
        """Return the arguments of ``_give_back``, or None if nothing can be stored."""
        if self.state is not Outcome.WON:
            raise UsageError(f"fulfil and give_back need a lease that was won; this one is {self.state.name}")
        return self._win


class Lease(BaseLease):
    """What ``Client.lease`` returns: a value, or the right to make one.

    At the end of a ``with`` block it gives back what was not fulfilled.

    Attributes:
        key: the key, as it was given.
        state: the ``Outcome``.
        value: the value, or None if ``has_value`` is false. If the state is ``WON``, it is a stale value.
        has_value: whether there is a value, which can be None.
    """

    __slots__ = ()

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = FOR_THREADS

    def fulfil(self, value: object, ttl: float | timedelta = DEFAULT_TTL) -> bool:
        """Store the value.

        Args:
            value: as for ``Client.set``.
            ttl: as for ``Client.set``. Include the time for which the value may be stale.

        Returns:
            Whether it was stored. False if the lease has expired, if another value was stored meanwhile, or if the item
            was deleted or marked stale.

        Raises:
            UsageError: the lease was not won.
        """
        won = self._won()
        if won is None:
            return False
        stored = self._client.cas(self.key, value, won[0], ttl)
        self._over()
        return stored is True

    def give_back(self) -> bool:
        """Let the next caller win. A value that is there stays, marked stale.

        Returns:
            Whether there was something to give back.

        Raises:
            UsageError: the lease was not won.
        """
        won = self._won()
        if won is None:
            return False
        given_back = self._client._give_back(self.key, *won)
        self._over()
        return given_back

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_to_return:
            self.give_back()
