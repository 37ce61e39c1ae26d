"""The kinds of targets that only Perl's rows have."""

from __future__ import annotations

from collections.abc import Iterator

from ..compare import rates, ratio
from ..declaration import Goal
from ..goals import reached
from ..names import OURS, contestant_name
from ..results import Document, Target


def at_least_one_coroutine(wanted: float, model: str) -> Goal:
    """The rate of many coroutines is at least `wanted` times that of one."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        ours, one = contestant_name(OURS, model), f"{row.rpartition(':')[0]}:1"
        found = ratio(rates(document, row, ours), rates(document, one, ours))
        yield from reached(f"{row} {model}: at least {wanted:g} times one coroutine", found, wanted)

    return goal


def at_most_system_calls_in(model: str, wanted: float) -> Goal:
    """An operation in one concurrency model takes at most `wanted` system calls, to two digits."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        for each in document.syscalls:
            if (each.row, each.contestant) == (row, contestant_name(OURS, model)):
                count = sum(each.per_call.values())
                text = f"{row} {model}: at most {wanted:g} system calls per operation"
                yield Target(text, f"{count:.3f}", round(count, 2) <= wanted)

    return goal
