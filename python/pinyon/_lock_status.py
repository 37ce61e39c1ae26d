"""How names stand: what a server says of them, and what is made of it."""

from __future__ import annotations

from typing import NamedTuple

#: Of one name: the holder, its token, the seconds left, those that wait, and the seconds since it was granted.
Inspected = tuple["str | None", "int | None", "float | None", "list[str]", "float | None"]


class LockStatus(NamedTuple):
    """How one name stands.

    Attributes:
        name: as it was asked for.
        holder: who has it: ``client:owner:number``; None when nobody does.
        token: the holder's fencing token; None when nobody has it, or a client without scripts does.
        remaining: seconds until it ends, if nothing prolongs it.
        waiting: those that wait for it, in order.
        age: seconds since it was granted; None when nobody has it, or a client without scripts does.
    """

    name: str | bytes
    holder: str | None
    token: int | None
    remaining: float | None
    waiting: list[str]
    age: float | None


def statuses(names: tuple[str | bytes, ...], inspected: list[Inspected]) -> list[LockStatus]:
    """Return the statuses in the order of the names; the server was asked for them sorted, each once."""
    texts = [name.encode() if isinstance(name, str) else name for name in names]
    by_text = dict(zip(sorted(set(texts)), inspected))
    return [LockStatus(name, *by_text[text]) for name, text in zip(names, texts)]


def any_locked(inspected: list[Inspected]) -> bool:
    return any(holder is not None for holder, *_ in inspected)


def first_owner(names: tuple[str | bytes, ...], inspected: list[Inspected]) -> str | None:
    return next((status.holder for status in statuses(names, inspected) if status.holder is not None), None)


def count_waiting(inspected: list[Inspected]) -> int:
    """Return how many wait; one that waits for several names counts once."""
    return len({attempt for _, _, _, waiting, _ in inspected for attempt in waiting})
