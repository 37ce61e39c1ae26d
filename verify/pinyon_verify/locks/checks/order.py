"""Check 6: for each name, the longest waiter is granted first.

The bound on overtaking: once the server has an attempt in its queue, no later one is granted a name or permits before it, as
long as it lives, except that those who read a name pass others who read it. A lock that is adopted was never free.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from ..attempts import NEVER, Attempt
from ..evidence import Evidence
from ..history import SECOND
from ..names import POOL
from ..trace import Step
from .finding import Finding

#: A waiter that expires within so many milliseconds may count as live or not.
CLOSE = 5
#: An attempt that can go to the server is in its queue after so long, on any machine.
ARRIVES = SECOND


def first_come_first_served(evidence: Evidence) -> Iterator[Finding]:
    """No attempt is granted a name, or permits, while a live waiter for it has an earlier ticket."""
    if not evidence.ordered:
        return
    queue = _Queue()
    for step in evidence.steps:
        if step.kind == "granted" or (step.kind == "joined" and queue.is_new(step)):
            before = queue.before(step)
            if before:
                name = step.name.replace(POOL, "permits of ")
                text = f"{name}: {step.attempt} was granted before {', '.join(before)}, who waited longer"
                yield Finding("order", step.at * 1000, text)
        queue.follow(step)


class _Queue:
    """The server's queue, rebuilt from its trace."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, int]] = defaultdict(dict)
        self._tickets: dict[str, int] = {}
        self._expiry: dict[str, int] = {}
        #: The attempts that wait to read a name, those that have a part of it, and those that adopt what another had.
        self._reading: set[tuple[str, str]] = set()
        self._joined: set[tuple[str, str]] = set()
        self._adopting: set[str] = set()

    def is_new(self, joined: Step) -> bool:
        """Whether the attempt had no part of it before."""
        return (joined.attempt, joined.name) not in self._joined

    def follow(self, step: Step) -> None:
        if step.kind == "queued":
            self._waiting[step.name][step.attempt] = step.number
            self._tickets[step.attempt] = step.number
        elif step.kind == "dequeued":
            self._waiting[step.name].pop(step.attempt, None)
            self._tickets[step.attempt] = step.number
        elif step.kind == "known":
            self._expiry[step.attempt] = step.number
        elif step.kind == "reads":
            self._reading.add((step.attempt, step.name))
        elif step.kind == "joined":
            self._joined.add((step.attempt, step.name))
        elif step.kind == "adopts":
            self._adopting.add(step.attempt)
        elif step.kind == "reset":
            # The memory of a restarted server is unknown. Tickets are never reused.
            self._waiting.clear()

    def before(self, granted: Step) -> list[str]:
        """Return the live waiters ahead of the attempt that is granted a name, which it must not pass."""
        if granted.attempt in self._adopting:
            return []
        ticket = self._tickets.get(granted.attempt, 1 << 62)
        reads = granted.kind == "joined" and not granted.name.startswith(POOL)
        return [
            attempt
            for attempt, other in self._waiting[granted.name].items()
            if other < ticket
            and self._expiry.get(attempt, 0) > granted.at // 1000 + CLOSE
            and not (reads and (attempt, granted.name) in self._reading)
        ]


def overtaken(evidence: Evidence) -> Iterator[Finding]:
    """Without faults, nobody passes an attempt that has no other of its own process before it, as all processes saw it.

    In its process, an attempt waits for the earlier ones that want what it wants; then it goes to the server. Who asks a
    second later comes later, also if the attempt gives up at last.
    """
    if not evidence.ordered:
        return
    attempts = evidence.attempts
    starts = [attempt.invoked for attempt in attempts]
    active: list[Attempt] = []
    for attempt in attempts:
        active = [other for other in active if other.over > attempt.invoked]
        since = _in_queue_since(active, attempt)
        active.append(attempt)
        # It leaves the queue before it knows that it has.
        until = attempt.over - ARRIVES if attempt.granted is None else attempt.granted
        if (
            until <= since
            or until > NEVER - 2 * ARRIVES
            or attempt.is_continued
            or _was_disturbed(evidence, attempt, until)
        ):
            continue
        for later in attempts[bisect_right(starts, since + evidence.stalled(attempt.invoked, until)) :]:
            if later.invoked > until:
                break
            if later.granted is None or later.granted >= until or later.is_continued:
                continue
            if attempt.conflicts(later) or attempt.competes(later):
                text = f"{later.id} came {(later.invoked - since) / SECOND + 1:.1f} s after {attempt.id}, and was granted first"
                yield Finding("order", later.granted, text)


def _in_queue_since(before: list[Attempt], attempt: Attempt) -> int:
    """Return when the attempt was certainly in the server's queue."""
    own = (other for other in before if other.process == attempt.process and attempt.conflicts(other))
    return max([attempt.invoked, *(other.over for other in own)]) + ARRIVES


def _was_disturbed(evidence: Evidence, attempt: Attempt, until: int) -> bool:
    return any(fault.at < until and attempt.invoked < fault.until for fault in evidence.faults)
