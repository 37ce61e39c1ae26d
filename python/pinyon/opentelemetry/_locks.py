"""Spans of locks."""

from __future__ import annotations

import inspect
import os
import time
from typing import TYPE_CHECKING, Any

from opentelemetry import context
from opentelemetry.trace import SpanKind, Status, StatusCode

from pinyon import _native
from pinyon._base_locks import BaseLocks
from pinyon._figures.figure import address
from pinyon._figures.locks import SYSTEM
from pinyon._held import BaseHeld, BaseLock
from pinyon.opentelemetry._spans import Operation, failure, type_of

if TYPE_CHECKING:
    from datetime import timedelta

    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from typing_extensions import Self

    from pinyon._figures.figure import Attributes
    from pinyon.opentelemetry._spans import Tracing

#: Seconds: locks may be held for long.
HOLDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 3600.0)

_QUESTIONS = {"each": "status", "is_locked": "is_locked", "first_owner": "owner", "waiting": "waiting"}


def _address(locks: BaseLocks) -> Attributes:
    return address(locks.server, SYSTEM)


def view(plain: Any, tracing: Tracing) -> Any:
    """Return a view of locks, the operations of which have spans."""
    locks = type(plain)
    traces = _Traces(tracing, _address(plain))
    shared = {"_traces": traces, "_awaited": inspect.iscoroutinefunction(locks.try_lock)}
    held = _made(locks._held, _TracedHeld, slots=("_acquiring", "_holding"), **shared)
    lock = _made(locks._lock, _TracedLock if shared["_awaited"] else _TracedBlock)
    kind = _made(locks, _TracedLocks, slots=("_plain",), _lock=lock, _held=held, **shared)
    made = _native.Locks.__new__(kind, plain)
    made._on_event, made._plain = plain._on_event, plain
    return made


def _made(kind: type, traced: type, slots: tuple[str, ...] = (), **body: Any) -> Any:
    """Return a subclass that looks like the class, and traces."""
    body.update(__slots__=slots, __module__=kind.__module__, __qualname__=kind.__qualname__)
    return type(kind.__name__, (traced, kind), body)


class _Traces:
    """The spans and durations of a view."""

    def __init__(self, tracing: Tracing, server: Attributes) -> None:
        self.tracing, self.server = tracing, server
        self.holds = tracing.histogram("pinyon.locks.hold.duration", "How long locks were held.", HOLDS)

    def begin(self, name: str) -> Operation:
        return Operation(self.tracing, {**self.server, "db.operation.name": name}, {})


class _Holding:
    """The time for which a lock is held."""

    def __init__(self, traces: _Traces, token: int, within: Context) -> None:
        self._traces = traces
        said = {**traces.server, "pinyon.lock.token": token}
        #: Empty once it is over: a loss may be told in another thread.
        self._open: list[Span] = [traces.tracing.start("hold", SpanKind.INTERNAL, said, within)]
        self._at, self._process = time.perf_counter(), os.getpid()

    def end(self, outcome: str, error: str | None = None) -> None:
        """End it, unless it is over, or this is a forked child of the holder."""
        try:
            span = self._open.pop()
        except IndexError:
            return
        if self._process != os.getpid():
            return
        seconds = time.perf_counter() - self._at
        said = {"pinyon.outcome": outcome}
        if error is not None:
            said["error.type"] = error
            span.set_status(Status(StatusCode.ERROR))
        span.set_attributes(said)
        span.end()
        self._traces.holds.record(seconds, {**self._traces.server, **said})


class _Acquiring(Operation):
    """An attempt to acquire a lock."""

    def __init__(self, traces: _Traces) -> None:
        super().__init__(traces.tracing, {**traces.server, "db.operation.name": "acquire"}, {})
        #: The caller's, for what follows.
        self.within = context.get_current()


class _TracedHeld(BaseHeld):
    """Traces a lock that is held, whatever the concurrency model."""

    __slots__ = ()

    _traces: _Traces
    #: Whether this is of tasks, which await outcomes.
    _awaited: bool
    _acquiring: _Acquiring
    _holding: _Holding | None

    def __new__(cls, lock: Any, at_once: bool = False, timeout: float | timedelta | None = None, /) -> Self:
        acquiring = _Acquiring(cls._traces)
        try:
            held = super().__new__(cls, lock, at_once, timeout)
        except BaseException as error:
            acquiring.end(error)
            raise
        held._acquiring, held._holding = acquiring, None
        if not cls._awaited:
            held._know()
        return held

    def _answer(self) -> Any:
        answer = super()._answer()
        if self._awaited and answer is not None:
            answer.add_done_callback(self._answered)
        return answer

    def _answered(self, future: Any) -> None:
        error = failure(future)
        if error is not None:
            self._acquiring.end(error)
        else:
            self._know()

    def _know(self) -> None:
        """The server has answered: it is held, or the names were taken."""
        is_acquired = self.token != 0
        self._acquiring.end(None, **{"pinyon.outcome": "acquired" if is_acquired else "busy"})
        if is_acquired:
            self._holding = _Holding(self._traces, self.token, self._acquiring.within)
            super()._tell(_lose)

    def _release(self, early: bool = False, /) -> Any:
        plain = super()._release
        try:
            outcome = self._traces.begin("release").run(lambda: plain(early))
        except BaseException as error:
            self._let_go(False, error)
            raise
        if self._awaited:
            outcome.add_done_callback(self._released)
        else:
            self._let_go(outcome, None)
        return outcome

    def _released(self, future: Any) -> None:
        error = failure(future)
        self._let_go(error is None and future.result(), error)

    def _let_go(self, was_held: bool, error: BaseException | None) -> None:
        if error is not None:
            self._over("unknown", type_of(error))
        elif was_held:
            self._over("released")
        else:
            self._lose()

    def _lose(self) -> None:
        self._over("lost", "pinyon.errors.LockLost")

    def _over(self, outcome: str, error: str | None = None) -> None:
        if self._holding is not None:
            self._holding.end(outcome, error)

    def _extend(self, ttl: float | timedelta) -> Any:
        plain = super()._extend
        return self._traces.begin("extend").run(lambda: plain(ttl))

    def _hand_over(self, ttl: float | timedelta | None) -> Any:
        plain = super()._hand_over
        ticket = self._traces.begin("hand_over").run(lambda: plain(ttl))
        if self._awaited:
            ticket.add_done_callback(self._handed_over)
        else:
            self._over("handed_over")
        return ticket

    def _handed_over(self, future: Any) -> None:
        if failure(future) is None:
            self._over("handed_over")

    def _upgrade(self, names: tuple[str | bytes, ...], timeout: float | timedelta | None) -> Any:
        plain = super()._upgrade
        return self._traces.begin("upgrade").run(lambda: plain(names, timeout))

    def _downgrade(self, names: tuple[str | bytes, ...]) -> Any:
        plain = super()._downgrade
        return self._traces.begin("downgrade").run(lambda: plain(names))

    def _park(self, wait: float | None) -> Any:
        plain = super()._park
        return self._traces.begin("wait").run(lambda: plain(wait))

    def _notify(self, most: int) -> Any:
        plain = super()._notify
        return self._traces.begin("notify").run(lambda: plain(most))

    def _cancel(self) -> None:
        super()._cancel()
        self._over("cancelled")

    def __del__(self) -> None:
        if hasattr(self, "_holding"):
            self._over("dropped")


def _lose(held: _TracedHeld) -> None:
    held._lose()


class _TracedLock(BaseLock):
    """Makes traced locks that are held."""

    __slots__ = ()


class _TracedBlock(_TracedLock):
    """The same for threads and greenlets, whose blocks are the library's."""

    __slots__ = ()

    def __exit__(self, kind: object, exception: BaseException | None, traceback: object) -> None:
        held = self._leave(True)
        if held._given_back:
            return
        try:
            kept = held._release()
        except Exception:
            if exception is None:
                raise
            return
        if not kept and exception is None:
            raise held._lost_inside()


class _TracedLocks(BaseLocks):
    """Traces what asks about locks, and makes traced ones."""

    __slots__ = ()

    _traces: _Traces

    def _inspect(self, names: tuple[str | bytes, ...], question: Any) -> Any:
        plain = super()._inspect
        return self._traces.begin(_QUESTIONS[question]).run(lambda: plain(names, question))

    def _release_all(self, timeout: float | timedelta | None) -> list[Any]:
        plain = super()._release_all
        begun = self._traces.begin("release_all")
        released: list[Any] = begun.run(lambda: plain(timeout))
        return released

    def _take_away(self, names: tuple[str | bytes, ...], token: int | None) -> Any:
        plain = super()._take_away
        return self._traces.begin("force_release").run(lambda: plain(names, token))

    def _rated(self, rate: Any, n: int, waits: bool, timeout: float | timedelta | None) -> Any:
        plain = super()._rated
        return self._traces.begin("wait_for_permits" if waits else "allow").run(lambda: plain(rate, n, waits, timeout))

    def _command(self, parts: Any, names: tuple[str | bytes, ...] | None = None) -> Any:
        plain = super()._command
        return self._traces.begin("execute").run(lambda: plain(parts, names))
