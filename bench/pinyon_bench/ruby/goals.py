"""The kinds of targets that only Ruby's rows have."""

from __future__ import annotations

from collections.abc import Iterator

from ..compare import rate_ratio, rates, ratio, samples_of
from ..declaration import Goal, Target
from ..goals import not_exceeded, reached
from ..names import ASYNC, DALLI, OURS, RUBY, contestant_name
from ..results import Document


def at_least_of(wanted: float, other: str, model: str, ours: str) -> Goal:
    """Our rate in one concurrency model is at least `wanted` times another's, in a row that several models have."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        found = rate_ratio(document, row, contestant_name(ours, model), contestant_name(other, model))
        yield from reached(f"{row} {model}: at least {wanted:g} times {other}", found, wanted)

    return goal


def at_least_dalli_in_async(first: float, second: float) -> Goal:
    """Our rate is at least so many times Dalli's: `first` in async 1, `second` in async 2."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        ours = contestant_name(OURS, ASYNC)
        newer = any(info.name == ours and "async 2." in info.version for info in document.contestants)
        wanted = second if newer else first
        found = rate_ratio(document, row, ours, contestant_name(DALLI, ASYNC))
        yield from reached(f"{row}: at least {wanted:g} times {DALLI}", found, wanted)

    return goal


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
