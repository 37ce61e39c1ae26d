"""What a function that makes a value for ``get_or_set`` may return in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["Made"]

_T_co = TypeVar("_T_co", covariant=True)


class Made(Generic[_T_co]):
    """A value that was made for ``get_or_set``, and how long to keep it. Return it from ``make``.

    Attributes:
        value: the value.
        ttl: seconds, or a timedelta, for which this value is fresh. 0 never expires. By default as the call says.
        stale: seconds after that in which this value is still used while one caller makes a new one, at most as long as
            the call says. By default as the call says.
        store: whether to store the value. Without it, the callers that wait get this value, and the next caller makes
            another one.
    """

    __slots__ = ("stale", "store", "ttl", "value")

    value: _T_co
    ttl: float | timedelta | None
    stale: float | timedelta | None
    store: bool

    def __init__(
        self,
        value: _T_co,
        ttl: float | timedelta | None = None,
        stale: float | timedelta | None = None,
        store: bool = True,
    ) -> None:
        self.value = value
        self.ttl = ttl
        self.stale = stale
        self.store = store

    def __repr__(self) -> str:
        return f"Made({self.value!r}, ttl={self.ttl!r}, stale={self.stale!r}, store={self.store!r})"
