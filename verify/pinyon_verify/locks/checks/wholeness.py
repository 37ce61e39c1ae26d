"""Checks 5, 9 and 10: all or nothing, nothing left behind, and no lock of a client that has gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..attempts import NEVER
from ..evidence import Evidence
from ..history import MILLISECOND, SECOND
from ..observer import Seen
from .finding import Finding

#: The keys of one attempt expire within so many milliseconds of each other.
TEAR = 5
#: How long a holder may not know that one of its names was deleted.
RECENT = 3 * SECOND


def all_or_nothing(evidence: Evidence) -> Iterator[Finding]:
    """At every look, an attempt holds all its names and permits or none."""
    wanted = {
        attempt.token: evidence.visible(attempt)
        for attempt in evidence.attempts
        if attempt.token is not None and attempt.is_written
    }
    most: dict[str, set[str]] = defaultdict(set)
    modes: dict[tuple[str, str], set[bool]] = defaultdict(set)
    for scan in evidence.scans:
        for seen in scan.seen:
            most[seen.attempt].add(seen.name)
            modes[seen.attempt, seen.name].add(seen.is_part)
    changed = {attempt for (attempt, _), seen_as in modes.items() if len(seen_as) > 1}
    ends: dict[tuple[str, str], int] = {}
    for scan in evidence.scans:
        by_attempt: dict[str, list[Seen]] = defaultdict(list)
        for seen in scan.seen:
            by_attempt[seen.attempt].append(seen)
            ends[seen.attempt, seen.name] = scan.asked + (seen.left - TEAR) * MILLISECOND
        for attempt, held in by_attempt.items():
            token = max(seen.token or 0 for seen in held)
            missing = wanted.get(token, frozenset()) | most[attempt]
            missing = missing - {seen.name for seen in held}
            if attempt in changed:
                # An upgrade that waited lasts from its grant on; what else the lock has, from its last renewal on.
                missing = frozenset(name for name in missing if ends.get((attempt, name), NEVER) > scan.answered)
            if not missing or min(seen.left for seen in held) <= TEAR:
                continue
            names = ", ".join(sorted(seen.name for seen in held))
            text = f"{attempt} held {names} without {', '.join(sorted(missing))}"
            lost = evidence.lost(missing, scan.asked - RECENT, scan.answered)
            yield Finding("all or nothing", scan.asked, text, "names were deleted" if lost else None)


def nothing_left(evidence: Evidence) -> Iterator[Finding]:
    """When no attempt holds or waits, only the counter is left, and no client listens."""
    for key in evidence.keys_left:
        yield Finding("nothing left", 0, f"the key {key} was left behind")
    for channel in evidence.channels_left:
        yield Finding("nothing left", 0, f"the channel {channel} has subscribers still")


def gone_is_gone(evidence: Evidence) -> Iterator[Finding]:
    """An attempt that was cancelled or released is not granted later, unless the server forgot that."""
    gone: dict[str, str | None] = {}
    for step in evidence.steps:
        if step.kind == "unlocked":
            gone[step.attempt] = None
        elif step.kind == "reset":
            gone = dict.fromkeys(gone, "the server lost its state")
        elif step.kind in ("granted", "joined") and step.attempt in gone:
            text = f"{step.attempt} was granted {step.name} after it was given up"
            yield Finding("gone", step.at * 1000, text, gone[step.attempt])


def in_time(evidence: Evidence) -> Iterator[Finding]:
    """No attempt fails before its time is over where servers only refuse for a while; and whoever would wait for ever, in a
    deadlock, is told.
    """
    for attempt in evidence.attempts:
        if attempt.given_up is None:
            continue
        waited = attempt.given_up - attempt.invoked
        if attempt.failed and waited < evidence.bounds.refused:
            text = f"{attempt.id} failed after {waited / SECOND:.3f} s: {attempt.failed}"
            yield Finding("in time", attempt.given_up, text)
        if attempt.timed_out and waited >= evidence.bounds.deadlocked > 0:
            yield Finding("in time", attempt.given_up, f"nobody was told that {attempt.id} would wait for ever")


def said(evidence: Evidence) -> Iterator[Finding]:
    """What the processes themselves found wrong."""
    for at, text in evidence.violations:
        yield Finding("said", at, text)
