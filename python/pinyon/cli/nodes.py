"""The nodes of a cluster: each is reached by a client whose names have a hash tag that is kept there."""

from __future__ import annotations

import binascii
import itertools
from typing import TYPE_CHECKING

from pinyon.errors import ServerError

if TYPE_CHECKING:
    from pinyon.locks import Locks

_SLOTS = 16384


def nodes(locks: Locks) -> list[Locks]:
    """Return clients of all the nodes that have slots, or this one where there is no cluster."""
    try:
        ranges = locks.execute("CLUSTER", "SLOTS")
    except ServerError as error:
        if "cluster support disabled" in str(error):
            return [locks]
        raise
    one_of_each = {tuple(primary[:2]): range(first, last + 1) for first, last, primary, *_ in ranges}
    return [locks._at((b"{%s}" % tag_in(slots),)) for slots in one_of_each.values()]


def tag_in(slots: range) -> bytes:
    """Return a hash tag whose slot is one of these."""
    tags = (b"%d" % number for number in itertools.count())
    return next(tag for tag in tags if binascii.crc_hqx(tag, 0) % _SLOTS in slots)
