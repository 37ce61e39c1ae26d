"""The kinds of cycles of locks, and the links."""

from __future__ import annotations

from typing import Literal

from ..protocol import Workload

PREFIX = "locks"
PING: Workload = "ping"
PAIR: Workload = "pair"
PIPELINED: Workload = "pipelined"
QUORUM: Workload = "quorum"
MUTEX: Workload = "mutex"
SECTION: Workload = "section"
HANDOVER: Workload = "handover"
READ: Workload = "read"
PERMITS: Workload = "permits"
RATE: Workload = "rate"
#: Holders that do something while they have the name: alone, or together.
WRITERS: Workload = "writers"
READERS: Workload = "readers"

#: More permits in a second than any client takes.
RATE_LIMIT = 10**6

#: Independent servers, of which a majority holds a lock.
QUORUM_SERVERS = 5

Link = Literal["near", "apart", "far"]
NEAR: Link = "near"
#: On another core than the client.
APART: Link = "apart"
FAR: Link = "far"
#: As between neighbouring data centres, where the network takes longer than all programs together.
FAR_ONE_WAY_MILLISECONDS = 1

#: The handlers of Pinyon's locks.
SCRIPT, PURE = HANDLERS = ("script", "pure")


def group_of(workload: str, link: Link = NEAR) -> str:
    """Returns the name of the group of rows of a workload."""
    return f"{PREFIX}:{workload}" if link == NEAR else f"{PREFIX}:{link}:{workload}"
