"""C's contestants, and how they are run."""

from __future__ import annotations

import sys

from ..names import OURS, C
from .rows import C_GROUPS

FLOOR_GROUPS = tuple(group.name for group in C_GROUPS)
#: Client, file in `bench/c`, model, groups of rows.
CONTESTANTS = ((OURS, "pinyon", C, FLOOR_GROUPS), ("libmemcached", "libmemcached", C, FLOOR_GROUPS))
BUILD = "make setup compiles it"


def command(file: str, _: str) -> list[str]:
    """Returns the command of a contestant."""
    return [sys.executable, "-m", __package__, file]
