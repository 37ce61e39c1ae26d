"""The nodes of a cluster. A command reaches a node by a name with a hash tag of that node."""

from __future__ import annotations

import binascii
import functools
import itertools
from typing import TYPE_CHECKING, Any

from pinyon.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon.locks import Locks

_SLOTS = 16384


def nodes(locks: Locks) -> list[Callable[..., Any]]:
    """Return a function for each node with slots that sends it a command. Without a cluster there is one server."""
    try:
        ranges = locks.execute("CLUSTER", "SLOTS")
    except ServerError as error:
        if "cluster support disabled" in str(error):
            return [locks.execute]
        raise
    one_of_each = {tuple(primary[:2]): range(first, last + 1) for first, last, primary, *_ in ranges}
    return [functools.partial(_execute, locks, b"{%s}" % tag_in(slots)) for slots in one_of_each.values()]


def _execute(locks: Locks, name: bytes, *parts: Any) -> Any:
    return locks._command(parts, (name,))


def tag_in(slots: range) -> bytes:
    """Return a hash tag for one of these slots."""
    tags = (b"%d" % number for number in itertools.count())
    return next(tag for tag in tags if binascii.crc_hqx(tag, 0) % _SLOTS in slots)
