"""Leases by hand: who is to make a value, and what there is meanwhile. ``get_or_set`` does all of it by itself."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from pinyon.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from typing_extensions import Self

    from pinyon import _native


class Outcome(enum.Enum):
    """What asking for a lease came to."""

    #: There is a fresh value.
    HIT = "hit"
    #: There is a value, which is marked stale or soon will end; another caller makes the next one.
    STALE = "stale"
    #: This caller is to make the value. There may be a stale one meanwhile.
    WON = "won"
    #: There is no value; another caller makes it.
    FILLING = "filling"


class BaseLease:
    """What was found under a key, and the right to put something there where that was won."""

    __slots__ = ("_client", "_win", "has_value", "key", "state", "value")

    def __init__(self, client: _native.Client, key: str | bytes, found: _native.Found) -> None:
        self._client = client
        self._win = found.win
        #: As it was asked for.
        self.key = key
        self.state = Outcome(found.state)
        #: The value, or None where ``has_value`` is false; beside ``WON`` a stale one.
        self.value: Any = found.value
        #: Whether there is a value, be it None.
        self.has_value = found.has_value

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {self.key!r} {self.state.name}>"

    def _won(self) -> tuple[int, bool] | None:
        """The token and what to do with what is there; None where nothing can be stored."""
        if self.state is not Outcome.WON:
            raise UsageError(f"fulfil and give_back need a lease that was won; this one is {self.state.name}")
        return self._win


class Lease(BaseLease):
    """What ``Client.lease`` returns. As a context manager it gives back what it still holds at the end of the block."""

    __slots__ = ()

    def fulfil(self, value: object, ttl: float | timedelta = 0) -> bool:
        """Store the value that was to be made.

        Args:
            value: as for ``Client.set``.
            ttl: seconds, or a timedelta, until the item ends; 0 for no end. Add those for which it may be stale.

        Returns:
            Whether it was stored: not if the lease has ended, if another value was stored meanwhile, or if the item was
            deleted or marked stale.

        Raises:
            UsageError: nothing was won.
        """
        won = self._won()
        if won is None:
            return False
        stored = self._client.cas(self.key, value, won[0], ttl)
        self._win = None
        return stored is True

    def give_back(self) -> bool:
        """Let the next caller win; a value that is there stays, marked stale. Returns whether something was held."""
        won = self._won()
        if won is None:
            return False
        self._win = None
        return self._client.give_back(self.key, *won)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._win is not None:
            self.give_back()
