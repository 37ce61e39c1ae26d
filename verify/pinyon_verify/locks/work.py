"""The work of a client process, in every concurrency model."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import pinyon
from pinyon.cli.stress import exercise
from pinyon.cli.stress.models import MODELS, Model
from pinyon.errors import LockTimeout

from .cancelling import acquire, shortened
from .candidate import Candidacy, campaign
from .history import Recorder, now
from .settings import NAMESPACE, Settings
from .share import Change, Share

#: The pause of a worker after an error from the server, in seconds.
AFTER_ERROR = 0.02
#: Seconds that a forked child may take.
CHILD = 30.0


def make_locks(model: Model, settings: Settings) -> Any:
    """Return the locks that one client process, or one of its workers, uses."""
    return model.locks(
        url=settings.url,
        namespace=NAMESPACE,
        ttl=settings.ttl,
        heartbeat=settings.heartbeat,
        command_timeout=settings.command_timeout,
        connect_timeout=max(1.0, settings.command_timeout),
        handler=settings.handler,
        fairness=settings.fairness,
        hash_tags="names" if settings.tags else "namespace",
        **({"longest_ttl": 0} if settings.trusted else {}),
    )


def work(settings: Settings, recorder: Recorder) -> None:
    """Run all workers of a process until time is up, and close."""
    model = MODELS[settings.model]()
    model.run(_work(model, settings, recorder))
    model.close()


async def _work(model: Model, settings: Settings, recorder: Recorder) -> None:
    shared = make_locks(model, settings)
    all_locks = [make_locks(model, settings) if settings.apart else shared for _ in range(settings.workers)]
    if settings.leads:
        candidates = (Candidacy(settings, recorder, number) for number in range(settings.workers))
        works = [campaign(model, candidate, locks) for locks, candidate in zip(all_locks, candidates)]
    else:
        workers = (Worker(model, Share(settings, recorder, number)) for number in range(settings.workers))
        works = [worker.work(locks) for locks, worker in zip(all_locks, workers)]
    await model.together(works)
    for locks in all_locks:
        locks.close()


class Worker(exercise.Worker):
    """One thread, greenlet or task at its share of the work."""

    def __init__(self, model: Model, share: Share) -> None:
        super().__init__(model)
        self.share = share
        self._arguments: dict[str, Any] = {}
        self._cancel_after: float | None = None
        self._is_inside = self._is_released = False

    def draw(self) -> bool:
        if not self.share.goes_on():
            return False
        self._begin()
        return True

    def _begin(self) -> None:
        self._arguments = self.share.draw()
        self._cancel_after = self.share.cancel_after()
        self._is_inside = self._is_released = False

    def lock(self, locks: Any) -> Any:
        arguments = shortened(self.model, self._arguments, self._cancel_after)
        if self.share.ticket:
            return locks.adopt(self.share.ticket.text, **arguments)
        return locks.lock(*self.share.wanted.written, **arguments)

    async def take(self, locks: Any) -> None:
        await super().take(locks)
        if count := self.share.asks_rate():
            await self._ask_rate(locks, count)

    @contextlib.asynccontextmanager
    async def holding(self, lock: Any) -> AsyncIterator[Any]:
        """Acquire the lock, or be cancelled; record how it is released."""
        try:
            held = await acquire(self.model, lock, self._cancel_after)
        finally:
            self.share.used_ticket()
        self._is_inside = True
        yield held
        if self._is_released:
            return
        self.share.record("release", self.share.attempt)
        try:
            kept = await self.model.outcome(held.release())
            self.share.record("released", self.share.attempt, kept=kept)
        except pinyon.Error as error:
            self.share.record("released", self.share.attempt, kept=None, error=str(error))

    async def inside(self, locks: Any, held: Any) -> None:
        for pause in self.share.stay(held):
            await self.model.sleep(pause)
            if self.share.forks():
                await self._fork(locks, held)
        if inner := self.share.inner():
            await Worker(self.model, inner).take_another(locks)
        while change := self.share.changes():
            if not await self._change(held, change):
                break
        await self._wait_on_condition(held)
        if not self._is_released and self.share.hands_over():
            await self._hand_over(held)

    async def _change(self, held: Any, change: Change) -> bool:
        """Give the lock other modes, and stay inside. Return whether it has them."""
        sent = now()
        self.share.begin_change(change)
        try:
            if change.upgrades:
                await self.model.outcome(held.upgrade(*change.names, timeout=change.timeout))
            else:
                await self.model.outcome(held.downgrade(*change.names))
        except pinyon.Error as error:
            if isinstance(error, LockTimeout):
                self.share.record("cancel", self.share.attempt)
            else:
                self.share.failed(error)
            self.share.not_changed(change, held)
            return False
        self.share.changed(change, sent)
        for pause in self.share.stay(held):
            await self.model.sleep(pause)
        return True

    async def _hand_over(self, held: Any) -> None:
        """Hand the lock over, or else keep it, to be released."""
        sent = now()
        try:
            ticket = await self.model.outcome(held.hand_over())
        except pinyon.Error:
            return
        self.share.handed_over(ticket, sent)
        self._is_released = True

    async def _ask_rate(self, locks: Any, count: int) -> None:
        settings = self.share.settings
        rate = locks.rate("api", limit=settings.rate_limit, per=settings.rate_per, burst=settings.rate_burst)
        sent = now()
        try:
            answer = await self.model.outcome(rate.allow(count))
        except pinyon.Error:
            return
        self.share.rated(count, sent, answer.allowed)

    async def take_another(self, locks: Any) -> None:
        """Acquire one lock, however late it is."""
        self._begin()
        await self.take(locks)

    async def failed(self, error: Exception) -> None:
        if self._is_inside or not isinstance(error, pinyon.Error):
            raise error
        if isinstance(error, LockTimeout):
            self.share.record("cancel", self.share.attempt)
        else:
            self.share.failed(error, cancelled=self._cancel_after is not None)
            await self.model.sleep(AFTER_ERROR)
        await self.passed()

    async def passed(self) -> None:
        await self.model.sleep(self.share.rest())

    async def _wait_on_condition(self, held: Any) -> None:
        """Now and then, release the names until another worker notifies."""
        token, timeout = held.token, self.share.waits()
        if timeout is None:
            return
        try:
            with contextlib.suppress(pinyon.Error):
                await self.model.outcome(held.notify())
            await self.model.outcome(held.wait(timeout))
        except LockTimeout:
            self.share.record("cancel", self.share.attempt)
            self._is_released = True
        except pinyon.Error as error:
            self.share.failed(error)
            with contextlib.suppress(pinyon.Error):
                await self.model.outcome(held.release())
            self._is_released = True
        else:
            if held.token == token:
                # Woken before the server knew: the names were held all the time.
                self.share.record("cancel", self.share.attempt)
                return
            for pause in self.share.stay(held):
                await self.model.sleep(pause)

    async def _fork(self, locks: Any, held: Any) -> None:
        """A child must not hold, renew or release its parent's locks; it uses locks of its own."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.share.record.after_fork()
                await self._be_child(locks, held)
                status = 0
            finally:
                os._exit(status)
        deadline = time.monotonic() + CHILD
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                if status:
                    self.share.violated(f"a forked child ended with status {status}")
                return
            await self.model.sleep(0.002)
            self.share.believes(held)
        self.share.violated(f"a forked child did not end in {CHILD:g} seconds")
        os.kill(child, 9)
        os.waitpid(child, 0)

    async def _be_child(self, locks: Any, held: Any) -> None:
        parent, self.share.attempt = self.share.attempt, ""
        self.share.after_fork()
        if not held.is_lost or held.remaining() > 0:
            self.share.violated(f"a forked child believes that it holds {parent}")
        try:
            if held.release():
                self.share.violated(f"a forked child released {parent}")
        except pinyon.Error:
            pass
        self.share.settings = self.share.settings.but(forks=0.0, cancels=1.0, patience=0.3, long_stays=0.0)
        for _ in range(3):
            await self.take_another(locks)
