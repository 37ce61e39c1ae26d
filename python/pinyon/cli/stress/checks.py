"""What must be true of all critical sections of all processes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pinyon.cli.stress.plan import Section


def overlaps(sections: Iterable[Section]) -> list[str]:
    """Return where two were in the section of one key at the same time."""
    found = []
    for on_one in _by_key(sections):
        longest = on_one[0]
        for section in on_one[1:]:
            if section.start < longest.end:
                together = min(section.end, longest.end) - section.start
                found.append(
                    f"{section.key}: processes {longest.process} and {section.process} "
                    f"were inside together for {together * 1000:.3f} ms"
                )
            longest = max(longest, section, key=lambda each: each.end)
    return found


def disorders(sections: Iterable[Section]) -> list[str]:
    """Return where a key's later section did not have the higher token."""
    return [
        f"{later.key}: token {later.token} of process {later.process} "
        f"came after {earlier.token} of process {earlier.process}"
        for on_one in _by_key(sections)
        for earlier, later in zip(on_one, on_one[1:])
        if later.token <= earlier.token
    ]


def _by_key(sections: Iterable[Section]) -> Iterator[list[Section]]:
    ordered = sorted(sections, key=lambda each: (each.key, each.start))
    for _, on_one in itertools.groupby(ordered, key=lambda each: each.key):
        yield list(on_one)
