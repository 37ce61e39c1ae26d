"""The calls that a client makes, from the table that all languages share (``cache/src/calls``)."""

from __future__ import annotations

import json
from typing import NamedTuple

from pinyon import _native


class Call(NamedTuple):
    """A call.

    Attributes:
        name: the name in the table.
        asks: whom it asks: ``"key"``, the server of one key; ``"keys"``, those of many; or ``"servers"``, all.
        needs_meta: whether servers that take only classic text cannot carry it out.
    """

    name: str
    asks: str
    needs_meta: bool


#: The calls that Python has, by the names of their methods.
CALLS = {
    call["names"]["python"]: Call(call["name"], call["asks"], call["needs_meta"])
    for call in json.loads(_native.CALLS)
    if call["names"]["python"]
}
#: The public ones.
PUBLIC = frozenset(method for method in CALLS if not method.startswith("_"))
