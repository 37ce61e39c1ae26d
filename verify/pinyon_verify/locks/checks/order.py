"""Check 6: for each name, the longest waiter is granted first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..evidence import Evidence
from ..trace import Step
from .finding import Finding

#: A waiter that expires within so many milliseconds may count as live or not.
CLOSE = 5


def first_come_first_served(evidence: Evidence) -> Iterator[Finding]:
    """No attempt is granted a name while a live waiter for it has an earlier ticket."""
    if not evidence.ordered:
        return
    queue = _Queue()
    for step in evidence.steps:
        if step.kind == "granted":
            before = queue.before(step)
            if before:
                text = f"{step.name}: {step.attempt} was granted before {', '.join(before)}, who waited longer"
                yield Finding("order", step.at * 1000, text)
        queue.follow(step)


class _Queue:
    """The server's queue, rebuilt from its trace."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, int]] = defaultdict(dict)
        self._tickets: dict[str, int] = {}
        self._expiry: dict[str, int] = {}

    def follow(self, step: Step) -> None:
        if step.kind == "queued":
            self._waiting[step.name][step.attempt] = step.number
            self._tickets[step.attempt] = step.number
        elif step.kind == "dequeued":
            self._waiting[step.name].pop(step.attempt, None)
            self._tickets[step.attempt] = step.number
        elif step.kind == "known":
            self._expiry[step.attempt] = step.number
        elif step.kind == "reset":
            # The memory of a restarted server is unknown. Tickets are never reused.
            self._waiting.clear()

    def before(self, granted: Step) -> list[str]:
        """Return the live waiters ahead of the attempt that is granted a name."""
        ticket = self._tickets.get(granted.attempt, 1 << 62)
        return [
            attempt
            for attempt, other in self._waiting[granted.name].items()
            if other < ticket and self._expiry.get(attempt, 0) > granted.at // 1000 + CLOSE
        ]
