"""Clients never believe that they hold more than the server keeps."""

from __future__ import annotations

from collections.abc import Iterator

from ..evidence import Evidence
from ..history import MILLISECOND
from .finding import Finding


def kept(evidence: Evidence) -> Iterator[Finding]:
    """At every look, the server keeps a lock for at least as long as its holder believed before."""
    by_token = {attempt.token: attempt for attempt in evidence.attempts if attempt.token is not None}
    for scan in evidence.scans:
        for seen in scan.seen:
            attempt = by_token.get(seen.token or 0)
            if attempt is None:
                continue
            expiry = scan.answered + (seen.left + 1) * MILLISECOND
            believed = max((until for at, until in attempt.beliefs if at < scan.asked), default=0)
            if believed > expiry:
                late = (believed - expiry) / MILLISECOND
                text = f"{seen.name}: {attempt.id} believed for {late:.1f} ms longer than the server keeps it"
                lost = evidence.lost(attempt.names, attempt.granted or 0, scan.answered)
                yield Finding("belief", scan.asked, text, "the server lost its state" if lost else None)


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
