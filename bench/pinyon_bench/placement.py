"""The cores for the client and the servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SAME_CORE, TWO_CORES, UNPINNED = "same-core", "two-cores", "unpinned"
PLACEMENTS = (SAME_CORE, TWO_CORES, UNPINNED)


class PlacementError(Exception):
    """The machine does not have enough cores for the placement."""


@dataclass(frozen=True)
class Placement:
    """The cores of the client, of the servers and of the benchmark itself; None: any."""

    name: str
    client: set[int] | None
    server: set[int] | None
    benchmark: set[int] | None


def place(name: str) -> Placement:
    """Returns the placement with this name, on the cores that this process may use.

    The client gets the last core. The benchmark itself uses other cores, if there are any.
    """
    cores = sorted(os.sched_getaffinity(0))
    if name == UNPINNED:
        return Placement(name, None, None, None)
    client, others = {cores[-1]}, set(cores[:-1])
    if name == SAME_CORE:
        return Placement(name, client, client, others or client)
    return Placement(name, client, apart_from(client, name), others)


def apart_from(client: set[int] | None, what: str) -> set[int] | None:
    """Returns a core that the client does not use, for the servers of `what`; None (any) if the client may use any."""
    if client is None:
        return None
    others = os.sched_getaffinity(0) - client
    if not others:
        raise PlacementError(f"{what} needs two cores; this process may use one")
    return {min(others)}


@contextmanager
def pinned(cores: set[int] | None) -> Iterator[None]:
    """Processes started inside run on these cores; None changes nothing."""
    if cores is None:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)
