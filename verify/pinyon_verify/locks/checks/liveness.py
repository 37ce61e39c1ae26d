"""Checks 7 and 8: an attempt that can be granted is granted soon, with a single message."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from ..attempts import NEVER, Attempt
from ..evidence import Evidence
from ..history import MILLISECOND
from .finding import Finding


def soon(evidence: Evidence) -> Iterator[Finding]:
    """No attempt waits long for free names with nobody ahead of it."""
    for attempt, since, until in gaps(evidence):
        gap = until - since - evidence.stalled(since, until)
        if gap > evidence.bounds.grant:
            names = ", ".join(sorted(attempt.names))
            text = f"{attempt.id} waited for {gap / MILLISECOND:.0f} ms for {names}, which were free"
            last = max((failover.at for failover in evidence.failovers), default=0)
            by_clock = until > last and not evidence.kept_by_clock.isdisjoint(attempt.names)
            yield Finding("liveness", since, text, "a clock was set back, by which a lock ends" if by_clock else None)


def gaps(evidence: Evidence) -> Iterator[tuple[Attempt, int, int]]:
    """Return, for each attempt, the longest time that it waited with nothing in its way.

    It is blocked by an attempt that shares a name, from that attempt's beginning to its end, if that one was
    granted earlier, or began earlier and was not granted meanwhile. For permits, it is blocked while there are not enough, and while
    attempts wait that are granted earlier. It is also blocked while the server is away or its own
    process is stopped.
    """
    attempts = evidence.attempts
    starts = [attempt.invoked for attempt in attempts]
    active: list[Attempt] = []
    away = [(fault.at, fault.until) for fault in evidence.faults if fault.kind in ("pause", "restart", "failover")]
    for index, attempt in enumerate(attempts):
        active = [other for other in active if other.over > attempt.invoked]
        until = attempt.granted if attempt.granted is not None else attempt.over
        if until < NEVER:
            during = attempts[index + 1 : bisect_left(starts, until)]
            others = active + during
            busy = [
                (other.invoked, other.over)
                for other in others
                if other.id != attempt.former and _is_before(other, attempt)
            ]
            busy += _full(attempt, others, evidence.limit)
            stops = [(fault.at, fault.until) for fault in evidence.faults if fault.process == attempt.process]
            since, end = _longest_free(attempt.invoked, until, busy + away + stops)
            if end > since:
                yield attempt, since, end
        active.append(attempt)


def _is_before(other: Attempt, attempt: Attempt) -> bool:
    return attempt.conflicts(other) and _is_first(other, attempt)


def _is_first(other: Attempt, attempt: Attempt) -> bool:
    if other.granted is None:
        # Who changes the modes of what it holds waits in front of all.
        return bool(other.former) or other.invoked < attempt.invoked
    if attempt.granted is None:
        return other.granted < attempt.over or other.invoked < attempt.invoked
    return other.granted < attempt.granted


def _full(attempt: Attempt, others: list[Attempt], limit: int) -> list[tuple[int, int]]:
    """Return when there were not enough permits for the attempt, or others waited for some before it."""
    busy: list[tuple[int, int]] = []
    for pool, count in attempt.permits.items():
        changes: list[tuple[int, int]] = []
        for other in others:
            if pool not in other.permits or not _is_first(other, attempt):
                continue
            granted = other.over if other.granted is None else other.granted
            busy.append((other.invoked, granted))
            changes += [(granted, other.permits[pool]), (other.over, -other.permits[pool])]
        busy += _too_few(sorted(changes), limit - count)
    return busy


def _too_few(changes: list[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Return when more than so many are held."""
    held, since = 0, 0
    for at, change in changes:
        if held > most:
            yield since, at
        held, since = held + change, at


def _longest_free(since: int, until: int, busy: list[tuple[int, int]]) -> tuple[int, int]:
    longest = (since, since)
    for begin, end in [*sorted(busy), (until, until)]:
        if min(begin, until) - since > longest[1] - longest[0]:
            longest = (since, min(begin, until))
        since = max(since, end)
    return longest


def wakes(evidence: Evidence) -> Iterator[Finding]:
    """Without faults and cancels, a lock costs two calls: one to acquire and one to release."""
    if evidence.calls is None:
        return
    grants = sum(attempt.granted is not None for attempt in evidence.attempts)
    called = evidence.calls.get("fcall", 0) + evidence.calls.get("evalsha", 0)
    # Each client announces itself once, or twice if its functions are not loaded.
    least, most = 2 * grants + evidence.clients, 2 * grants + 4 * evidence.clients
    if not least <= called <= most:
        text = f"{called} calls of scripts for {grants} locks by {evidence.clients} clients: not two for each"
        yield Finding("wakes", 0, text)
    pushed = evidence.calls.get("publish", 0)
    if pushed > grants:
        yield Finding("wakes", 0, f"{pushed} pushes for {grants} grants")
