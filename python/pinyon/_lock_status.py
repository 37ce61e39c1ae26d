"""The state of a lock's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class LockStatus(NamedTuple):
    """The state of one name, as the server knows it.

    Attributes:
        name: the name, as it was given.
        holder: the holder as ``client:owner:number``, or None if the name is free. If another program has written the
            value of the name, this says so: ``a value of another program ("closed")``.
        token: the holder's fencing token. None if the name is free, or if the holder's client works without scripts.
        remaining: seconds until the lock expires if it is not renewed, or None if the name is free.
        waiting: the attempts that wait for the name, in order.
        age: seconds since the lock was acquired. None if the name is free or read, or if the holder's client works
            without scripts.
        readers: all that read the name, while it is read; ``holder`` is one of them.
    """

    name: str | bytes
    holder: str | None
    token: int | None
    remaining: float | None
    waiting: list[str]
    age: float | None
    readers: list[str]


def statuses(names: tuple[str | bytes, ...], states: Iterable[tuple[Any, ...]]) -> list[LockStatus]:
    """Return the statuses of names, given the state of each."""
    return [LockStatus(name, *state) for name, state in zip(names, states)]
