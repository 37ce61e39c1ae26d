"""How one name stands."""

from __future__ import annotations

from typing import NamedTuple


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
