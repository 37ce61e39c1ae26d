"""Seed 003's program, with a size and a number of operations of its user's.

Each value is SIZE times `x`; the sets use key1 to keyITER, and all gets use key1. Blocking calls come first, then one client
that a number of coroutines share. Perl's coroutines do it as it was written: each operation has a coroutine of its own,
behind a semaphore.
"""

from __future__ import annotations

from dataclasses import replace

from ..perl.rows import LOCAL, LOOPS, PAIRS_GROUPS, SEMAPHORE, pairs_row
from .rows import LOCAL as NEARBY
from .rows import NEAR, OPERATIONS, SIZES_CONCURRENCIES, SLOW, SLOW_LINK, PairsRow, size_row

SIZE = 64
ITERATIONS = 10_000
SLOW_ITERATIONS = 100


def program_rows(size: int, iterations: int | None, slow: bool) -> list[PairsRow]:
    """Returns the program's rows in order, with exactly the requested number of operations."""
    count = iterations or (SLOW_ITERATIONS if slow else ITERATIONS)
    rows: list[PairsRow] = []
    for many in SIZES_CONCURRENCIES:
        for operation in OPERATIONS:
            python = size_row(operation, size, many, count)
            shape = SEMAPHORE if many else LOOPS
            perl = pairs_row(shape, operation, size, many, count)
            name = f"{PAIRS_GROUPS[shape, LOCAL].name}:{python.name.partition(':')[2]}"
            rows.append(replace(python, group=(SLOW_LINK if slow else NEARBY).name))
            rows.append(replace(perl, name=name, group=PAIRS_GROUPS[shape, SLOW if slow else LOCAL].name))
    link = SLOW if slow else NEAR
    return [replace(row, count=count, clocked=0, warmup=row.concurrency or 1, link=link) for row in rows]
