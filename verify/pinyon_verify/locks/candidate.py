"""Workers that are candidates for a leadership: what they draw, do and record, in every concurrency model."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

from pinyon.cli.stress.models import Model

from .history import SECOND, Recorder, ending, now
from .register import Register
from .settings import Settings

#: How often a worker looks whether its candidate leads, and how long its ``on_lost`` takes, in seconds.
LOOK, LOSING = 0.01, 0.002
#: How often a leader writes to the register when it looks.
USES = 0.3
#: How much longer than a lock's waiter a candidate waits before it gives up.
PATIENT = 20


class Candidacy:
    """What one worker's candidate draws and records. A leadership is recorded as an attempt that holds a lock.

    A candidate calls back in a thread of its own.
    """

    def __init__(self, settings: Settings, recorder: Recorder, number: int) -> None:
        self.settings, self.record = settings, recorder
        self.name = f"n{number % settings.names}"
        self._candidate = f"{recorder.process}.{number}"
        self._random = random.Random(f"{settings.seed}:{number}")
        self._folder = Path(settings.folder)
        self._register = Register(settings.register)
        #: Which attempt has led with which token.
        self._led: dict[int, str] = {}
        self._attempts = 0
        self._attempt = ""
        self._is_asking = self._is_paused = self._is_ending = False
        self._gives_up_at = self._resigns_at = 0
        self._lock = threading.Lock()

    def goes_on(self) -> bool:
        return now() < ending(self._folder)

    def begins(self) -> None:
        """Called before the candidate is started."""
        self._is_ending = False
        self._asks()

    def _asks(self) -> None:
        self._attempts += 1
        self._attempt = f"{self._candidate}.{self._attempts}"
        settings = self.settings
        waits = settings.patience
        if self._random.random() < settings.cancels:
            waits = self._random.uniform(0, PATIENT * settings.cancel_within)
        self._gives_up_at = now() + int(waits * SECOND)
        self._is_asking, self._is_paused = True, False
        self.record("invoke", self._attempt, names=[self.name])

    def elected(self, token: int) -> None:
        """The callback ``on_elected``."""
        since = now()
        with self._lock:
            if self._is_paused:
                self._asks()
            self._is_asking = False
            self._led[token] = self._attempt
        self._resigns_at = since + int(self._stay() * SECOND)
        self.record("granted", self._attempt, token=token, until=since)
        self._called("elected", self._attempt, token, since)

    def _stay(self) -> float:
        settings = self.settings
        if self._random.random() < settings.long_stays:
            return self._random.uniform(0.5, 1.5) * settings.ttl
        return self._random.uniform(0, settings.stay)

    def lost(self, token: int) -> None:
        """The callback ``on_lost``."""
        since = now()
        attempt = self._led.get(token, "")
        self.record("lost", attempt, at=since)
        time.sleep(LOSING)
        self._called("lost", attempt, token, since)
        if not self._is_ending:
            self._asks()

    def _called(self, what: str, attempt: str, token: int, since: int) -> None:
        self.record("called", attempt, what=what, token=token, since=since, candidate=self._candidate)

    def look(self, leader: Any) -> None:
        """Record whether the candidate leads, and do what is due."""
        sent = now()
        token = leader.token
        answered = now()
        if token is None:
            self._follow(leader.state)
            return
        facts = {"token": token, "answered": answered, "name": self.name, "candidate": self._candidate}
        self.record("leads", at=sent, **facts)
        if attempt := self._led.get(token):
            self._lead(leader, attempt, token)

    def _follow(self, state: str) -> None:
        """Note that the candidate pauses after a failure, or asks again."""
        with self._lock:
            if state == "paused" and self._is_asking:
                self._is_asking, self._is_paused = False, True
                self.record("failed", self._attempt, error="it pauses", cancelled=True)
            elif state == "candidate" and self._is_paused:
                self._asks()

    def _lead(self, leader: Any, attempt: str, token: int) -> None:
        if self._random.random() < USES:
            sent = now()
            accepted, order = self._register.write(self.name, token)
            self.record("write", attempt, name=self.name, token=token, sent=sent, accepted=accepted, order=order)
        if now() >= self._resigns_at:
            self.record("release", attempt)
            if leader.resign():
                self.record("resigned", attempt)

    def gives_up(self) -> bool:
        """Whether the candidate is to end, and to begin anew, as it was not elected."""
        return self._is_asking and now() > self._gives_up_at

    def ends(self) -> None:
        """Called before the candidate is stopped."""
        self._is_ending = True

    def has_ended(self) -> None:
        """Called when it has stopped."""
        if self._is_asking:
            self.record("cancel", self._attempt)
        self._is_asking = self._is_paused = False


async def campaign(model: Model, candidacy: Candidacy, locks: Any) -> None:
    """Be a candidate until time is up; end now and then, and begin anew."""
    leader = locks.leader(candidacy.name, on_elected=candidacy.elected, on_lost=candidacy.lost)
    while candidacy.goes_on():
        candidacy.begins()
        leader.start()
        while candidacy.goes_on() and not candidacy.gives_up():
            await model.sleep(LOOK)
            candidacy.look(leader)
        candidacy.ends()
        await model.outcome(leader.stop())
        candidacy.has_ended()
