"""Clients never believe that they hold more than the server keeps."""

from __future__ import annotations

from collections.abc import Iterator

from ..evidence import Evidence
from ..history import MILLISECOND, SECOND
from ..names import is_kept_for_nobody
from .finding import Finding

#: How long a client that can hear of a new primary may need to go there, on any machine.
FOLLOWS = 3 * SECOND
#: Servers round the times at which locks expire.
ROUNDING = 2 * MILLISECOND


def kept(evidence: Evidence) -> Iterator[Finding]:
    """At every look, the server keeps a lock for at least as long as its holder believed before."""
    by_token = {
        attempt.token: attempt for attempt in evidence.attempts if attempt.token is not None and attempt.is_written
    }
    for scan in evidence.scans:
        for seen in scan.seen:
            attempt = by_token.get(seen.token or 0)
            if attempt is None or is_kept_for_nobody(seen.attempt):
                continue
            expiry = scan.answered + (seen.left + 1) * MILLISECOND
            believed = max((until for at, until in attempt.beliefs if at < scan.asked), default=0)
            if believed > expiry:
                late = (believed - expiry) / MILLISECOND
                text = f"{seen.name}: {attempt.id} believed for {late:.1f} ms longer than the server keeps it"
                yield Finding("belief", scan.asked, text, evidence.forgotten(attempt.names, scan.answered, attempt))


def ended(evidence: Evidence) -> Iterator[Finding]:
    """No client believes in a deleted lock beyond its ttl: no renewal succeeds any more."""
    for fault in evidence.faults:
        if fault.kind not in ("delete", "flush"):
            continue
        for attempt in evidence.attempts:
            if attempt.granted is None or attempt.granted >= fault.at or attempt.over <= fault.at:
                continue
            if fault.names and fault.names.isdisjoint(attempt.names):
                continue
            if attempt.believed > fault.until + evidence.bounds.ttl:
                late = (attempt.believed - fault.until) / MILLISECOND
                names = ", ".join(sorted(attempt.names))
                text = f"{attempt.id} believed in {names} for {late:.0f} ms after that was deleted"
                yield Finding("belief", fault.until, text)


def proved(evidence: Evidence) -> Iterator[Finding]:
    """No client believes in a lock for longer than some server has ever promised to keep it."""
    if evidence.wall is None or not evidence.journals:
        return
    for attempt in evidence.attempts:
        if attempt.granted is None:
            continue
        promised = evidence.kept_until(attempt) * MILLISECOND - evidence.wall
        if attempt.believed > promised + ROUNDING:
            late = (attempt.believed - promised) / MILLISECOND
            text = f"{attempt.id} believed for {late:.1f} ms longer than any server promised"
            yield Finding("belief", attempt.granted, text)


def followed(evidence: Evidence) -> Iterator[Finding]:
    """Nobody is granted or renewed a lock by a replaced primary once its client could know of the new one."""
    for failover in evidence.failovers:
        for attempt in evidence.attempts:
            if attempt.granted is None or not evidence.unknown(attempt, failover):
                continue
            told = failover.told if attempt.process in failover.deaf else failover.until
            last = max(attempt.granted, attempt.believed - evidence.bounds.ttl)
            late = last - told - evidence.stalled(told, last)
            if late > FOLLOWS and not evidence.stopped(attempt, told, last):
                text = (
                    f"{attempt.id} still used the old primary {late / MILLISECOND:.0f} ms after the new one was known"
                )
                yield Finding("followed", last, text)
