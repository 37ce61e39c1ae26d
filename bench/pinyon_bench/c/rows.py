"""The rows of C's clients. They do the same work as the rows whose names they have after `c:`."""

from __future__ import annotations

from dataclasses import replace

from ..declaration import Group
from ..names import C
from ..step_rows import StepRow, step_rows

GROUP = Group(
    f"{C}:calls",
    "C: get, set and many keys in one call",
    ": operations or keys per second, connected and warm",
    1,
)
C_GROUPS = (GROUP,)
ROWS = ("set:64B", "get:64B", "multiget:100:1")
RUN_ROUNDS = 3


def c_rows(short: bool) -> list[StepRow]:
    """Returns C's rows; `short` with the rounds of `run`."""
    return [
        replace(
            row,
            name=f"{C}:{row.name}",
            group=GROUP.name,
            models=(C,),
            most_rounds=RUN_ROUNDS if short else None,
            also=("system calls",),
            goals=(),
        )
        for row in step_rows()
        if row.name in ROWS
    ]
