"""A rate gives no more than its burst, and its limit in each period."""

from __future__ import annotations

from collections.abc import Iterator

from ..evidence import Evidence, Rated
from ..history import MILLISECOND, SECOND
from .finding import Finding

#: Servers round the time at which a rate is whole.
ROUNDING = 2 * MILLISECOND


def rates(evidence: Evidence) -> Iterator[Finding]:
    """In any time, a rate gives at most its burst, and its limit in each period.

    The server counted at some moment between each request and its answer. So what was asked and answered within a time was
    given within it.
    """
    given = sorted(evidence.rated, key=lambda rated: rated.answered)
    for first in given:
        excess = _most_beyond(first, given)
        if excess is None:
            continue
        last, count, most = excess
        text = f"{count} permits of a rate within {(last.answered - first.sent) / SECOND:.3f} s, of which {most:.1f} are allowed"
        since, until = first.sent, last.answered
        lost = evidence.lost(frozenset(), since, until)
        failed_over = any(failover.at < until and since < failover.until for failover in evidence.failovers)
        excuse = "the server lost its state" if lost else "a failover in between" if failed_over else None
        yield Finding("rate", first.sent, text, excuse)


def _most_beyond(first: Rated, given: list[Rated]) -> tuple[Rated, int, float] | None:
    """Return the last of those that were given too much from the first one on, how many that were, and how many are allowed."""
    count = 0
    for each in given:
        if each.sent < first.sent:
            continue
        count += each.count
        most = each.burst + each.limit * (each.answered - first.sent + ROUNDING) / SECOND / each.per
        if count > most:
            return each, count, most
    return None
