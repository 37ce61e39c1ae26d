"""One job of a kind at a time: the rules for any queue. Ruby and Perl have the same, and play the same scenarios.

A kind of job has a lock. A job that is unique from its enqueueing hands its lock over to its own message, so nothing
holds it but the server, until a worker adopts it. While a job runs, its worker also locks the job's id, and reads the
mark "runs" of the kind. The id shows a message that is delivered again that its own first worker is in its way, dead or
alive. The mark shows whether a job may be replaced. A job that was replaced is marked by the token of its lock.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon.errors import LockLost, LockTimeout, UsageError
from pinyon.locks import Locks

if TYPE_CHECKING:
    from pinyon.locks import Held

WHEN = ("enqueued", "running")
ON_CONFLICT = ("skip", "wait", "replace")
#: How many seconds a job that replaces waits for a running one before it looks again.
LOOK = 1.0


class Terms(NamedTuple):
    """How jobs of a kind are unique. ``unique`` says what each of them means."""

    when: str
    on_conflict: str
    ttl: float
    timeout: float | None
    queue_ttl: float
    retry_in: float


class Conflict(Exception):
    """A job must not be enqueued, or must not run, because there is another one of its kind."""


class Skipped(Conflict):
    """There is one already."""


class Replaced(Conflict):
    """A later one has taken its place."""


class Later(Conflict):
    """Another one runs, and the job is to wait in the queue."""


class Run:
    """A job that runs, and its locks."""

    def __init__(self, held: Held, here: Held | None) -> None:
        self.held = held
        self._here = here

    def hand_on(self, ttl: float) -> str:
        """Return a claim for the message with which the job will run again, which must begin within ``ttl`` seconds."""
        return _claim(self.held, ttl)

    def end(self, *, failed: bool = False) -> None:
        """Release the locks.

        Raises:
            LockLost: the lock was lost while the job ran, unless it has ``failed`` anyway.
        """
        try:
            kept = self.held._given_back or self.held.release()
        finally:
            if self._here is not None:
                self._here.release()
        if not kept and not failed:
            raise self.held._lost_inside()


class OneAtATime:
    """Decides whether a job is enqueued, and whether it runs.

    Raises:
        UsageError: a term makes no sense.
    """

    def __init__(self, locks: Locks, terms: Terms) -> None:
        if not isinstance(locks, Locks):
            raise UsageError(f"unique needs pinyon.Locks, not {locks!r}: workers run jobs in threads")
        _one_of("when", terms.when, WHEN)
        _one_of("on_conflict", terms.on_conflict, ON_CONFLICT)
        if terms.when == "running" and terms.on_conflict == "replace":
            raise UsageError('on_conflict="replace" replaces jobs that wait in the queue: it needs when="enqueued"')
        _seconds("ttl", terms.ttl, 0.001)
        _seconds("queue_ttl", terms.queue_ttl, 0.001)
        _seconds("retry_in", terms.retry_in, 0.0)
        if terms.timeout is not None:
            _seconds("timeout", terms.timeout, 0.0)
        self.locks = locks
        self.terms = terms

    def enqueue(self, name: str, delay: float = 0.0) -> str | None:
        """Lock a job that is about to be enqueued, and return the claim for its message, if it needs one.

        Args:
            name: the lock of its kind.
            delay: seconds before which no worker will run it.

        Raises:
            UsageError: the name is one that these rules use themselves.
            Skipped: there is one already.
            LockTimeout: the time to wait for it is over.
        """
        check_name(name)
        if self.terms.when == "running":
            return None
        take = {"skip": self._try, "wait": self._wait, "replace": self._replace}[self.terms.on_conflict]
        return _claim(take(name), self.terms.queue_ttl + delay)

    def give_up(self, claim: str) -> None:
        """Release the lock of a job that could not be enqueued, if no other one has it by now."""
        with contextlib.suppress(LockLost):
            self.locks.adopt(_ticket(claim)).acquire().release()

    def begin(self, name: str, job: str, claim: str | None = None) -> Run:
        """Lock a job that a worker is about to run.

        Args:
            name: the lock of its kind.
            job: its id, which stays the same when it is delivered or tried again.
            claim: what ``enqueue`` or ``hand_on`` returned.

        Raises:
            UsageError: the name is one that these rules use themselves.
            Skipped, Replaced: it must not run.
            Later: it must wait in the queue, with its claim if that was not used.
        """
        check_name(name)
        if self.terms.when == "running":
            return Run(self._by_name_with(name, job), None)
        here = self._here(name, job)
        try:
            return Run(self._adopted(name, claim) or self._by_name(name, claim), here)
        except BaseException:
            here.release()
            raise

    def _try(self, name: str) -> Held:
        held = self.locks.try_lock(name, ttl=self.terms.ttl, reentrant=False)
        if held is None:
            raise Skipped(f"there is a job that has the lock {name!r} already")
        return held

    def _wait(self, name: str) -> Held:
        return self.locks.lock(name, ttl=self.terms.ttl, timeout=self.terms.timeout, reentrant=False).acquire()

    def _replace(self, name: str) -> Held:
        """Take the lock away from a job that waits in the queue. Wait for one that runs."""
        until = time.monotonic() + self._patience()
        replaced: list[int] = []
        while True:
            left = until - time.monotonic()
            lock = self.locks.lock(name, ttl=self.terms.ttl, reentrant=False, timeout=max(0.0, min(left, LOOK)))
            # The token first: if the job begins to run now, its token changes, and the lock is not taken away.
            token = self.locks.status(name)[0].token
            runs = self.locks.is_locked(_running(name))
            if token is not None and not runs and self.locks.force_release(name, token=token):
                replaced.append(token)
            try:
                held = lock.acquire()
            except LockTimeout:
                if left <= 0:
                    raise
                continue
            try:
                for each in replaced:
                    self._mark(_replaced(name, each))
            except BaseException:
                held.release()
                raise
            return held

    def _mark(self, name: str) -> None:
        """Keep a name locked without a holder, for as long as the message of a replaced job may wait."""
        mark = self.locks.try_lock(name, ttl=self.terms.ttl, reentrant=False)
        if mark is not None:
            mark.hand_over(self.terms.queue_ttl)

    def _by_name_with(self, name: str, job: str) -> Held:
        """Lock a kind and a job's id together, so that both end at the same time if the worker dies."""
        names = (name, _job(name, job))
        if self.terms.on_conflict == "wait":
            return self._or_later(*names)
        held = self.locks.try_lock(*names, ttl=self.terms.ttl, reentrant=False)
        if held is not None:
            return held
        return self._after_itself(*names, missed=_left(self.locks, names[1]))

    def _here(self, name: str, job: str) -> Held:
        """Lock a job's id, for longer than the lock of its kind would outlive the worker."""
        ttl, mark, ours = 2 * self.terms.ttl, (_running(name),), _job(name, job)
        held = self.locks.try_lock(ours, read=mark, ttl=ttl, reentrant=False)
        if held is not None:
            return held
        left = _left(self.locks, ours) or 0.0
        try:
            return self.locks.lock(ours, read=mark, ttl=ttl, timeout=left + LOOK, reentrant=False).acquire()
        except LockTimeout:
            raise Skipped(f"this job runs in another worker already: the lock {ours!r} is held") from None

    def _after_itself(self, *names: str, missed: float | None) -> Held:
        """Lock what a worker may have that began the same job and has died: wait for its ttl, and no longer."""
        try:
            timeout = 0.0 if missed is None else missed + LOOK
            return self.locks.lock(*names, ttl=self.terms.ttl, timeout=timeout, reentrant=False).acquire()
        except LockTimeout:
            raise Skipped(f"another job has the lock {names[0]!r}") from None

    def _adopted(self, name: str, claim: str | None) -> Held | None:
        if claim is None:
            return None
        try:
            return self.locks.adopt(_ticket(claim), ttl=self.terms.ttl).acquire()
        except LockLost:  # It was used before, its time is over, or a later job has taken it away.
            return None

    def _by_name(self, name: str, claim: str | None) -> Held:
        if self.terms.on_conflict == "wait":
            return self._or_later(name)
        held = self.locks.try_lock(name, ttl=self.terms.ttl, reentrant=False)
        if self.terms.on_conflict == "skip":
            if held is None:
                raise Skipped(f"another job has the lock {name!r}")
            return held
        # The mark is looked for with the lock held: whoever replaces sets it before the lock is free again.
        if held is None:
            raise Replaced(f"a later job has the lock {name!r}")
        if claim is not None and self.locks.is_locked(_replaced(name, _token(claim))):
            held.release()
            raise Replaced(f"a later job had the lock {name!r}")
        return held

    def _or_later(self, *names: str) -> Held:
        try:
            return self.locks.lock(*names, ttl=self.terms.ttl, timeout=self.terms.timeout, reentrant=False).acquire()
        except LockTimeout as error:
            raise Later(str(error)) from error

    def _patience(self) -> float:
        timeout = self.terms.timeout
        return float(self.locks._settings["timeout"]) if timeout is None else timeout


def check_name(name: str) -> None:
    """Refuse the name of a kind that would also be the name of another kind's mark, or of a job of it.

    Raises:
        UsageError: the name has a part that marks have.
    """
    if ":job:" in name or ":replaced:" in name or name.endswith(":runs"):
        raise UsageError(
            f'a job cannot have the lock {name!r}: unique jobs use names with ":job:" or ":replaced:" in them, or '
            '":runs" at the end, for themselves; change the name'
        )


def _claim(held: Held, ttl: float) -> str:
    token = held.token
    return f"{token} {held.hand_over(ttl)}"


def _ticket(claim: str) -> str:
    return claim.partition(" ")[2]


def _token(claim: str) -> str:
    return claim.partition(" ")[0]


def _running(name: str) -> str:
    return f"{name}:runs"


def _job(name: str, job: str) -> str:
    return f"{name}:job:{job}"


def _replaced(name: str, token: int | str) -> str:
    return f"{name}:replaced:{token}"


def _left(locks: Locks, name: str) -> float | None:
    return locks.status(name)[0].remaining


def _one_of(what: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise UsageError(f"{what} is {' or '.join(map(repr, known))}, not {given!r}")


def _seconds(what: str, given: Any, least: float) -> None:
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if not is_number or not least <= given < math.inf:
        raise UsageError(f"{what} must be seconds, at least {least:g}, not {given!r}")
