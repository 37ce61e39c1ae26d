"""The state of a lock's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class LockOwner(NamedTuple):
    """Who has a lock or waits for it.

    Attributes:
        host: the short name of its host. None if its client is of an earlier version.
        pid: its process there, or None if another program has written the value of the name.
        label: what its client is called (``Locks(label=...)``), or None.
        note: what it says about its lock (``lock(..., note=...)``), or None.
    """

    host: str | None
    pid: int | None
    label: str | None
    note: str | None


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
        owners: who each of these is: the holder, the readers, and those that wait.
    """

    name: str | bytes
    holder: str | None
    token: int | None
    remaining: float | None
    waiting: list[str]
    age: float | None
    readers: list[str]
    owners: dict[str, LockOwner]

    @property
    def host(self) -> str | None:
        """The holder's host, or None if it is free or not known."""
        return self._of_holder.host

    @property
    def pid(self) -> int | None:
        """The holder's process there."""
        return self._of_holder.pid

    @property
    def label(self) -> str | None:
        """What the holder's client is called (``Locks(label=...)``)."""
        return self._of_holder.label

    @property
    def note(self) -> str | None:
        """What the holder says about its lock (``lock(..., note=...)``)."""
        return self._of_holder.note

    @property
    def _of_holder(self) -> LockOwner:
        return _NOBODY if self.holder is None else self.owners.get(self.holder, _NOBODY)


_NOBODY = LockOwner(None, None, None, None)


def statuses(names: tuple[str | bytes, ...], states: Iterable[tuple[Any, ...]]) -> list[LockStatus]:
    """Return the statuses of names, given the state of each."""
    return [_status(name, *state) for name, state in zip(names, states)]


def _status(name: str | bytes, *state: Any) -> LockStatus:
    holder, token, remaining, waiting, age, readers, who = state
    owners = {attempt: LockOwner(*known) for attempt, known in who}
    return LockStatus(name, holder, token, remaining, waiting, age, readers, owners)
