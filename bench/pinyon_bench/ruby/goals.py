"""The kinds of targets that only Ruby's rows have."""

from __future__ import annotations

from collections.abc import Iterator

from ..compare import rates, ratio, samples_of
from ..declaration import Goal
from ..goals import not_exceeded, reached
from ..names import DALLI, OURS, RUBY, contestant_name
from ..results import Document, Target


def user_time_at_most(share: float, words: str) -> Goal:
    """Our time in user code per operation is at most this share of Dalli's; `words` say which."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        ours, theirs = (_user_times(document, row, contestant_name(name, RUBY)) for name in (OURS, DALLI))
        yield from not_exceeded(f"{row}: user time per operation at most {words} {DALLI}'s", ratio(ours, theirs), share)

    return goal


def as_fast_as(wanted: float, other: str) -> Goal:
    """The rate on all threads is at least `wanted` times that of another row, with one thread."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        ours = contestant_name(OURS, RUBY)
        found = ratio(rates(document, row, ours), rates(document, other, ours))
        yield from reached(f"{row}: at least {wanted:g} times the rate of one thread", found, wanted)

    return goal


def _user_times(document: Document, row: str, contestant: str) -> dict[int, float]:
    return {sample.round: sample.user / sample.operations for sample in samples_of(document, row, contestant)}
