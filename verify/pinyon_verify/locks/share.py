"""One worker's share of the work: what it draws, how long it stays inside, and what it records."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .history import MILLISECOND, SECOND, Recorder, ending, now
from .register import Register
from .settings import Settings
from .tickets import Ticket, Tickets
from .wanted import Wanted, draw

#: How often a holder checks that it still holds the lock, in seconds.
SLICE = 0.01
#: It leaves if it may consider the lock held for at most this time, in seconds.
MARGIN = 0.005
#: The first number of workers inside others' locks.
INNER = 1000
#: A sleep is recorded if it took so much longer than requested, in seconds.
LATE = 0.005

#: How often a lock with names in both modes is upgraded, and not downgraded.
UPGRADES = 0.7

#: How much more often a worker looks for a ticket than it leaves one.
FINDS = 5


@dataclass(frozen=True)
class Change:
    """Names to write that a lock reads, or else to read that it writes."""

    names: list[str]
    upgrades: bool
    timeout: float
    #: The attempt that has the lock, and what it wanted.
    former: str
    before: Wanted


class Share:
    """What one worker draws and records."""

    def __init__(self, settings: Settings, recorder: Recorder, number: int) -> None:
        self.settings = settings
        self.record = recorder
        self.random = random.Random(f"{settings.seed}:{number}")
        self._number = number
        self._folder = Path(settings.folder)
        self._register = Register(settings.register)
        self._process = recorder.process
        self._attempts = 0
        self.attempt = ""
        self.wanted = Wanted()
        #: What the attempt adopts, if it does.
        self.ticket: Ticket | None = None
        self._tickets = Tickets(self._folder, self.random)
        self._inner: Share | None = None
        self._outer_names: frozenset[str] = frozenset()

    def goes_on(self) -> bool:
        return now() < ending(self._folder)

    def rest(self) -> float:
        return self.random.uniform(0, self.settings.rest)

    def after_fork(self) -> None:
        """Called in a forked child: it is another process's worker, with a connection of its own."""
        self._process = self.record.process
        self._register = Register(self.settings.register)

    def draw(self) -> dict[str, Any]:
        """Begin an attempt: choose its names and its kind. Return the settings for ``lock``."""
        settings = self.settings
        timeout = 0.0 if self.random.random() < settings.tries else settings.patience
        arguments = {"timeout": timeout, "renew": self.random.random() >= settings.unrenewed}
        self.ticket = self._tickets.find() if self._happens(FINDS * settings.hand_overs) else None
        if self.ticket:
            self.wanted = Wanted(self.ticket.names)
            self._begin(source=self.ticket.attempt)
            return {**arguments, "timeout": settings.patience}
        tag = f"{{t{self.random.randrange(settings.tags)}}}" if settings.tags else ""
        names = (f"{tag}n{number}" for number in range(settings.names))
        others = [name for name in names if name not in self._outer_names]
        self.wanted = draw(settings, self.random, others, f"m{self._process}.{self._number}")
        self._begin()
        return {**arguments, **self.wanted.arguments(settings.limit)}

    def _happens(self, often: float) -> bool:
        return often > 0 and self.random.random() < often

    def _begin(self, **facts: Any) -> None:
        self._attempts += 1
        self.attempt = f"{self._process}.{self._number}.{self._attempts}"
        self.record("invoke", self.attempt, **self.wanted.facts(), **facts)

    def inner(self) -> Share | None:
        """Now and then, return the share of a worker that takes other names while these are held."""
        if self._outer_names or self.random.random() >= self.settings.nested:
            return None
        if self._inner is None:
            self._inner = Share(self.settings, self.record, self._number + INNER)
        self._inner._outer_names = frozenset(self.wanted.names)
        return self._inner

    def forks(self) -> bool:
        """Return whether to fork now, inside."""
        return self.random.random() < self.settings.forks

    def waits(self) -> float | None:
        """Return the seconds to wait on a condition, if any. The names are free meanwhile."""
        if self.random.random() >= self.settings.conditions:
            return None
        self.record("release", self.attempt)
        self.record("released", self.attempt, kept=None)
        self._begin()
        return self.random.uniform(0, 0.05)

    def changes(self) -> Change | None:
        """Return which names to upgrade or to downgrade now, if any."""
        if self.wanted.at_least or not self._happens(self.settings.changes) or not self.goes_on():
            return None
        read, written = list(self.wanted.read), self.wanted.written
        upgrades = bool(read) and (not written or self.random.random() < UPGRADES)
        names = read if upgrades else written
        if not names:
            return None
        if self.random.random() < 0.5:
            names = sorted(self.random.sample(names, self.random.randint(1, len(names))))
        timeout = 0.0 if self.random.random() < self.settings.tries else self.settings.patience
        return Change(names, upgrades, timeout, self.attempt, self.wanted)

    def begin_change(self, change: Change) -> None:
        """Begin an attempt: the same lock in other modes."""
        self.record("changing", self.attempt)
        self.wanted = self.wanted.changed(change.names, upgrades=change.upgrades)
        self._begin(former=change.former)

    def changed(self, change: Change, sent: int) -> None:
        self.record("changed", change.former, sent=sent)

    def not_changed(self, change: Change, held: Any) -> None:
        """Go on with the lock in its former modes, if it is held."""
        self.attempt, self.wanted = change.former, change.before
        self.believes(held)

    def hands_over(self) -> bool:
        """Return whether to hand the lock over now, instead of releasing it."""
        return self.wanted.may_be_handed_over and self._happens(self.settings.hand_overs)

    def handed_over(self, text: str, sent: int) -> None:
        """Leave the ticket to others. If nobody uses it in time, the lock ends by its ttl."""
        self.record("handed", self.attempt, sent=sent, until=now() + int(self.settings.ttl * SECOND))
        self._tickets.leave(Ticket(text, list(self.wanted.names), self.attempt))

    def used_ticket(self) -> None:
        if self.ticket:
            self._tickets.remove(self.ticket)

    def asks_rate(self) -> int:
        """Return how many permits of a rate to ask for now; 0 for none."""
        return self.random.randint(1, 3) if self._happens(self.settings.rates) else 0

    def rated(self, count: int, sent: int, allowed: bool) -> None:
        settings = self.settings
        facts: dict[str, Any] = {
            "limit": settings.rate_limit,
            "per": settings.rate_per,
            "burst": settings.rate_burst,
        }
        self.record("rated", count=count, sent=sent, allowed=allowed, **facts)

    def cancel_after(self) -> float | None:
        """Return after how many seconds to cancel the attempt, or None; a negative number means loop turns."""
        settings = self.settings
        if self.random.random() >= settings.cancels:
            return None
        if settings.stepwise:
            return -float(self._attempts % 25)
        return self.random.uniform(0, settings.cancel_within)

    def granted(self, held: Any) -> None:
        at = now()
        until = at + int(held.remaining() * SECOND)
        self.record("granted", self.attempt, token=held.token, until=until)

    def believes(self, held: Any) -> float:
        """Record until when the client believes to hold the lock; return for how many seconds it may rely on it."""
        at = now()
        remaining: float = held.remaining()
        if remaining <= 0:
            self.record("lost", self.attempt)
            return 0.0
        self.record("believes", self.attempt, until=at + int(remaining * SECOND))
        return max(0.0, remaining - MARGIN)

    def stay(self, held: Any) -> Iterator[float]:
        """Stay in the critical section: use a register, stay, use another. Yields how long to sleep."""
        self.granted(held)
        reliable = self.believes(held)
        if not reliable:
            return
        self.record("begin", self.attempt)
        try:
            self._use(held, *self.wanted.names[:1])
            for pause in self._slices():
                due = now() + int(min(pause, reliable) * SECOND)
                yield min(pause, reliable)
                if now() - due > LATE * SECOND:
                    self.record("late", self.attempt, at=due)
                reliable = self.believes(held)
                if not reliable:
                    return
            self._use(held, *self.wanted.names[-1:])
            self.believes(held)
        finally:
            self.record("end", self.attempt)

    def _slices(self) -> Iterator[float]:
        settings = self.settings
        stay = self.random.uniform(0, settings.stay)
        if self.random.random() < settings.long_stays:
            stay = self.random.uniform(0.5, 1.5) * settings.ttl
        while stay > 0:
            yield min(stay, SLICE)
            stay -= SLICE

    def _use(self, held: Any, *names: str) -> None:
        """Write to the registers of names to write, and read the others."""
        for name in names:
            sent = now()
            if name in self.wanted.read:
                newest, order = self._register.read(name, held.token)
                facts = {"name": name, "token": held.token, "sent": sent, "newest": newest, "order": order}
                self.record("read", self.attempt, **facts)
            else:
                accepted, order = self._register.write(name, held.token)
                facts = {"name": name, "token": held.token, "sent": sent, "accepted": accepted, "order": order}
                self.record("write", self.attempt, **facts)

    def failed(self, error: BaseException, *, cancelled: bool = True) -> None:
        self.record("failed", self.attempt, error=f"{type(error).__name__}: {error}", cancelled=cancelled)

    def violated(self, text: str) -> None:
        """Record something that the checks cannot see from outside."""
        self.record("violation", self.attempt, text=text)


def watch_for_stalls(recorder: Recorder, folder: Path) -> None:
    """Record when this process got no processor time; runs in a thread."""
    while now() < ending(folder):
        before = now()
        time.sleep(0.02)
        if now() - before > 80 * MILLISECOND:
            recorder("stall", at=before, until=now())
