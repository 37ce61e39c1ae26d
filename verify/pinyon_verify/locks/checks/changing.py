"""A lock whose modes change: nobody has what it keeps, its token rises as it writes more, and one of two is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ..attempts import Attempt
from ..evidence import Evidence
from ..history import SECOND
from .finding import Finding

#: One of two readers that wait to write the same name is refused within this time, on any machine.
REFUSED = 3 * SECOND


def tokens(evidence: Evidence) -> Iterator[Finding]:
    """An upgrade has a higher token than before, and a downgrade the same."""
    for former, attempt in _pairs(evidence):
        before, after = former.token or 0, attempt.token or 0
        if after == before if _gains(former, attempt) else after != before:
            text = f"{attempt.id} has token {after} after {before} of {former.id}, whose modes it changed"
            yield Finding("change", attempt.granted or 0, text)
        elif after < before:
            text = f"{attempt.id} has token {after}, and {former.id} had {before}"
            yield Finding("change", attempt.granted or 0, text, _excuse(evidence, former, attempt))


def nobody_between(evidence: Evidence) -> Iterator[Finding]:
    """Between a lock and its upgrade, nobody writes its names, and nobody reads those that it wrote."""
    holders = dict(evidence.holders())
    for former, attempt in _pairs(evidence):
        for name in sorted(former.names):
            for other in holders.get(name, ()):
                is_between = (former.token or 0) < (other.token or 0) < (attempt.token or 0)
                if is_between and former.conflicts_at(name, other):
                    text = f"{name}: {other.id} had it between {former.id} and {attempt.id}, its upgrade"
                    yield Finding("change", other.granted or 0, text, _excuse(evidence, former, other, attempt))


def refused(evidence: Evidence) -> Iterator[Finding]:
    """Of two readers that wait to write the same name, one is refused: neither could ever be granted."""
    if not evidence.bounds.refuses_upgrades:
        return
    by_id = {attempt.id: attempt for attempt in evidence.attempts}
    waited = [each for each in evidence.attempts if each.former and each.timed_out and each.granted is None]
    for first, second in combinations(waited, 2):
        since, until = max(first.invoked, second.invoked), min(first.over, second.over)
        if until - since - evidence.stalled(since, until) < REFUSED:
            continue
        gains = _gains(by_id[first.former], first) & by_id[second.former].names
        if gains & _gains(by_id[second.former], second):
            names = ", ".join(sorted(gains))
            text = f"{first.id} and {second.id} waited for each other to write {names}, and neither was refused"
            yield Finding("in time", since, text, evidence.forgotten(gains, until, first, second))


def _pairs(evidence: Evidence) -> Iterator[tuple[Attempt, Attempt]]:
    """Return each lock whose modes were changed, and what it became."""
    by_id = {attempt.id: attempt for attempt in evidence.attempts}
    for attempt in evidence.attempts:
        if attempt.former and attempt.granted is not None:
            yield by_id[attempt.former], attempt


def _gains(former: Attempt, attempt: Attempt) -> frozenset[str]:
    """Return the names that it is to write, and read before."""
    return former.read - attempt.read


def _excuse(evidence: Evidence, *attempts: Attempt) -> str | None:
    return evidence.forgotten(attempts[0].names, max(attempt.granted or 0 for attempt in attempts), *attempts)
