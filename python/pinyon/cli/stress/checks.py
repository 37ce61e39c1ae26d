"""Checks of critical sections: no two of a name overlap, and later ones have higher tokens."""

from __future__ import annotations

import itertools
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Callable, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pinyon.cli.stress.plan import Section

Span = TypeVar("Span")


def overlapping(
    spans: Iterable[Span], start: Callable[[Span], Any], end: Callable[[Span], Any]
) -> Iterator[tuple[Span, Span]]:
    """Yield each pair of overlapping spans of one name, the earlier span first."""
    inside: list[Span] = []
    for later in sorted(spans, key=start):
        inside = [earlier for earlier in inside if end(earlier) > start(later)]
        for earlier in inside:
            yield earlier, later
        inside.append(later)


def disordered(spans: Iterable[Span], token: Callable[[Span], int]) -> Iterator[tuple[Span, Span]]:
    """Yield each span whose token is not above all earlier ones of its name, behind the span with the highest token."""
    newest: Span | None = None
    for later in spans:
        if newest is not None and token(later) <= token(newest):
            yield newest, later
        else:
            newest = later


def overlaps(sections: Iterable[Section]) -> list[str]:
    """Return a line for each two sections of one key that overlap."""
    return [
        f"{later.key}: processes {earlier.process} and {later.process} "
        f"were inside together for {(min(earlier.end, later.end) - later.start) * 1000:.3f} ms"
        for on_one in _by_key(sections)
        for earlier, later in overlapping(on_one, attrgetter("start"), attrgetter("end"))
    ]


def disorders(sections: Iterable[Section]) -> list[str]:
    """Return a line for each section of a key that did not have a higher token than the earlier ones."""
    return [
        f"{later.key}: token {later.token} of process {later.process} "
        f"came after {earlier.token} of process {earlier.process}"
        for on_one in _by_key(sections)
        for earlier, later in disordered(on_one, attrgetter("token"))
    ]


def _by_key(sections: Iterable[Section]) -> Iterator[list[Section]]:
    ordered = sorted(sections, key=attrgetter("key", "start"))
    for _, on_one in itertools.groupby(ordered, key=attrgetter("key")):
        yield list(on_one)
