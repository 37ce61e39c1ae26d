"""Numbers for the greenlets and tasks that hold locks. A number is never used again."""

from __future__ import annotations

import weakref
from typing import Any

from pinyon._native import new_owner

#: Numbers by ``id``. Another object can get the same ``id`` later; the reference tells whose number it is.
_known: dict[int, tuple[weakref.ref[Any], int]] = {}


def number_of(owner: Any) -> int:
    """Return the number of a greenlet or task."""
    known = _known.get(id(owner))
    if known is not None and known[0]() is owner:
        return known[1]
    return _add(owner)


def _add(owner: Any) -> int:
    key, number = id(owner), new_owner()

    def forget(gone: weakref.ref[Any]) -> None:
        if _known.get(key, (None,))[0] is gone:
            del _known[key]

    _known[key] = weakref.ref(owner, forget), number
    return number
