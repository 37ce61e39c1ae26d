"""The kinds of targets that only Perl's rows have."""

from __future__ import annotations

from collections.abc import Iterator

from ..compare import rates, ratio
from ..declaration import Goal, Target
from ..goals import reached
from ..names import OURS, contestant_name
from ..results import Document


def at_least_in_row(wanted: float, model: str, other_row: str, other: str, other_model: str, words: str) -> Goal:
    """Our rate in one concurrency model is at least `wanted` times that of a contestant in another row, which may name
    the `{row}` without its last part; `words` say which.
    """

    def goal(document: Document, row: str) -> Iterator[Target]:
        where = other_row.format(row=row.rpartition(":")[0])
        ours = rates(document, row, contestant_name(OURS, model))
        found = ratio(ours, rates(document, where, contestant_name(other, other_model)))
        yield from reached(f"{row} {model}: at least {wanted:g} times {words}", found, wanted)

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
