"""A worker of a stress run: its keys, and the critical section of each."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from typing import TYPE_CHECKING, Any, Callable

from pinyon.cli.stress import exercise
from pinyon.cli.stress.models import MODELS, Model
from pinyon.cli.stress.plan import Event, Failure, Mismatch, Plan, Section

Report = Callable[[Event], None]

if TYPE_CHECKING:
    from collections.abc import Sequence


class Stop(Exception):
    """A mismatch ends the run."""


class Worker(exercise.Worker):
    """Works through its keys, and counts successes and failures.

    Args:
        plan: the plan of the run.
        model: the concurrency model.
        report: called with each section and each failure.
    """

    def __init__(self, plan: Plan, model: Model, report: Report) -> None:
        super().__init__(model)
        self._plan = plan
        self._report = report
        # ``getppid`` would return another process if the parent was killed meanwhile.
        parent = multiprocessing.parent_process()
        self._parent = os.getppid() if parent is None else parent.pid
        self._random = random.Random(os.urandom(16))
        self._until = None if plan.seconds is None else time.monotonic() + plan.seconds
        self._left: dict[str, int] = {}
        self._rounds = 0
        self._key = ""
        self._found = (0.0, 0.0, 0, b"", b"")
        self.ok: int = 0
        self.failures: int = 0

    def draw(self) -> bool:
        """Choose one of the remaining keys at random. Return False if none is left, or if the time is up."""
        if not self._left:
            if self._rounds and self._until is None:
                return False
            self._left = {f"key:{number}": self._plan.tries for number in range(self._plan.keys)}
            self._rounds += 1
        if self._until is not None and time.monotonic() >= self._until:
            return False
        self._key = self._random.choice(list(self._left))
        return os.getppid() == self._parent

    def lock(self, locks: Any) -> Any:
        """Return the key's lock. It is not renewed, and its ttl is twice the time of the section."""
        return locks.lock(self._key, ttl=2 * self._plan.sleep, timeout=self._plan.sleep, renew=False)

    async def inside(self, locks: Any, held: Any) -> None:
        """Write a value beside the key, sleep, and read it back."""
        start = time.monotonic()
        place, written = locks.prefix + f"{self._key}:widget".encode(), self.new_value(held.token)
        await self.model.outcome(locks.execute("SET", place, written))
        await self.model.sleep(self._plan.sleep)
        read = await self.model.outcome(locks.execute("GET", place))
        self._found = (start, time.monotonic(), held.token, written, read)
        # If the lock expired during the section, the section proves nothing: a delayed process loses its lock.
        held.check()

    def new_value(self, token: int) -> bytes:
        """Return the value to write: the lock's token and a random number."""
        return b"%d %d" % (token, self._random.getrandbits(64))

    async def passed(self) -> None:
        """Check a section during which the lock was held. Raises ``Stop`` if a later holder wrote."""
        start, end, token, written, read = self._found
        self._report(Section(self._key, start, end, token, os.getpid()))
        if read != written and not is_earlier(read, token):
            self._report(Mismatch(self._key, os.getpid(), written, read))
            raise Stop
        self.ok += 1
        del self._left[self._key]

    async def failed(self, error: Exception) -> None:
        """Count a failed section."""
        self.failures += 1
        self._left[self._key] -= 1
        given_up = self._left[self._key] == 0
        if given_up:
            del self._left[self._key]
        self._report(Failure(self._key, type(error).__name__, given_up))


def is_earlier(value: bytes | None, token: int) -> bool:
    """Return whether a value was written under an earlier lock than the token's.

    A delayed process writes after its lock has expired, and no lock can prevent that. If it still held the lock, both
    sections would overlap, and the check at the end would find that.
    """
    return value is not None and int(value.split()[0]) < token


def run(plan: Plan, report: Report) -> Sequence[Worker]:
    """Run all workers of one process, and return them. Raises ``Stop`` if one finds a mismatch."""
    model = MODELS[plan.driver]()
    workers = [Worker(plan, model, report) for _ in range(plan.concurrency)]
    model.run(_work(plan, model, workers))
    return workers


async def _work(plan: Plan, model: Model, workers: Sequence[Worker]) -> None:
    async with model.held(model.locks(**plan.settings)) as locks:
        await model.together([worker.work(locks) for worker in workers])
