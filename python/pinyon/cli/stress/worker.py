"""What one worker does, whichever way it waits: the keys it has to go through, and the section on each."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any, Callable

from pinyon.cli.stress.plan import Event, Failure, Mismatch, Plan, Section

if TYPE_CHECKING:
    from collections.abc import Iterator

Report = Callable[[Event], None]


class Stop(Exception):
    """A mismatch: there is nothing left to show."""


class Worker:
    """The keys that are left, and what came of those tried.

    Args:
        plan: what to do.
        report: is told of each section and each failure.
    """

    def __init__(self, plan: Plan, report: Report) -> None:
        self.plan = plan
        self._report = report
        self._parent = os.getppid()
        self._random = random.Random(os.urandom(16))
        self._left: dict[str, int] = {}
        self.ok = self.failures = 0

    def still_left(self) -> Iterator[str]:
        """Each time a random one of those that are left; ends when none is, or the time is over."""
        rounds = 0
        while True:
            if not self._left:
                if rounds and self.plan.until is None:
                    return
                self._left = {f"key:{number}": self.plan.tries for number in range(self.plan.keys)}
                rounds += 1
            over = self.plan.until is not None and time.monotonic() >= self.plan.until
            if over or os.getppid() != self._parent:
                return
            yield self._random.choice(list(self._left))

    def lock_settings(self) -> dict[str, Any]:
        """How a section's lock is taken: nothing prolongs it, and it lasts for twice the section."""
        return {"ttl": 2 * self.plan.sleep, "timeout": self.plan.sleep, "renew": False}

    def new_value(self) -> bytes:
        """Return what to write."""
        return b"%d" % self._random.getrandbits(64)

    def passed(self, key: str, start: float, end: float, token: int, written: bytes, read: bytes | None) -> None:
        """Judge a section during which the lock was held. Raises ``Stop`` where somebody else wrote."""
        self._report(Section(key, start, end, token, os.getpid()))
        if read != written:
            self._report(Mismatch(key, os.getpid(), written, read))
            raise Stop
        self.ok += 1
        del self._left[key]

    def failed(self, key: str, error: Exception) -> None:
        """Count a section that came to nothing."""
        self.failures += 1
        self._left[key] -= 1
        given_up = self._left[key] == 0
        if given_up:
            del self._left[key]
        self._report(Failure(key, type(error).__name__, given_up))
