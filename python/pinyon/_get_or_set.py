"""``get_or_set``: the steps of one caller, and the callers of one process who share a maker.

How to wait is all that the concurrency models do differently. What a caller does after which answer is decided
natively.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pinyon import _native
from pinyon.errors import OUTAGES, Error, LeaseTimeout, UnsupportedType, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon._steps import Steps

#: Types of values that callers may have in common; of others each gets its own.
_IMMUTABLE = frozenset((bytes, str, int, float, bool, type(None)))


class Waits(Protocol):
    """How the callers of one concurrency model wait."""

    def scope(self) -> Any:
        """Return what callers have in common who can wait for each other."""

    def caller(self) -> Any:
        """Return who is running."""

    def sleep(self, seconds: float) -> Any:
        """Let time pass."""

    def signal(self) -> Any:
        """Return something with ``set``, of which one caller waits."""

    def wait(self, signal: Any, seconds: float) -> Any:
        """Wait until it is set, and no longer than that."""

    def give_back(self, client: _native.Client, key: str | bytes, cas: int, keep: bool) -> None:
        """Give a lease back for a caller that is going away."""


class Threads:
    """Of threads."""

    caller = staticmethod(threading.get_ident)
    signal = threading.Event
    sleep = staticmethod(time.sleep)

    @staticmethod
    def scope() -> None:
        """All of them."""

    @staticmethod
    def wait(signal: threading.Event, seconds: float) -> None:
        signal.wait(seconds)

    @staticmethod
    def give_back(client: _native.Client, key: str | bytes, cas: int, keep: bool) -> None:
        with contextlib.suppress(Error):
            client.give_back(key, cas, keep)


class _Flight:
    """A value that one caller asks for, or makes, and that others of the process want too."""

    def __init__(self, caller: Any) -> None:
        self.caller = caller
        self.followers: list[Any] = []
        #: Returns or raises what the others are told.
        self.answer: Callable[[], Any] | None = None
        self.is_over = False

    def tell(self, client: _native.Client, value: Any) -> None:
        """Let the others go on with a value."""
        try:
            self.answer = _copying(client, value)
        except Exception as error:
            self.answer = _raising(error)
        self._wake()

    def fail(self, error: Exception) -> None:
        """Let the others go on with an error."""
        self.answer = _raising(error)

    def end(self) -> None:
        """Let the others go on, each by itself where there is no answer for them."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        followers, self.followers = self.followers, []
        for signal in followers:
            signal.set()


def _copying(client: _native.Client, value: Any) -> Callable[[], Any]:
    if type(value) in _IMMUTABLE:
        return lambda: value
    return partial(client.unpack, *client.pack(value))


def _raising(error: Exception) -> Callable[[], NoReturn]:
    traceback = error.__traceback__

    def answer() -> NoReturn:
        raise error.with_traceback(traceback)

    return answer


def get_or_set(
    client: _native.Client,
    waits: Waits,
    key: str | bytes,
    make: Callable[[], Any],
    leasing: _native.Leasing,
) -> Steps:
    """Return the value of a key, made by this caller or by another where there is none."""
    if not callable(make):
        raise UnsupportedType(f"make is called to make the value; {type(make).__qualname__} is not callable")
    place = (os.getpid(), waits.scope(), client.flight_of(key))
    while True:
        own = _Flight(waits.caller())
        flight = client.flights.setdefault(place, own)
        if flight is own:
            return (yield from _lead(flight, place, _Caller(client, waits, key, make, leasing, flight)))
        if flight.caller == own.caller:
            raise UsageError("make asks for the value that it is to make, by get_or_set of the same key")
        signal = waits.signal()
        flight.followers.append(signal)
        if flight.answer is None and not flight.is_over:
            yield waits.wait(signal, leasing.patience)
        if flight.answer is not None:
            return flight.answer()
        if not flight.is_over:
            raise _gave_up(key)


def _lead(flight: _Flight, place: Any, caller: _Caller) -> Steps:
    try:
        value = yield from caller.run()
    except LeaseTimeout:
        raise
    except Exception as error:
        flight.fail(error)
        raise
    else:
        if flight.followers:
            flight.tell(caller.client, value)
        return value
    finally:
        caller.client.flights.pop(place, None)
        flight.end()


class _Caller:
    """Carries out the steps of ``_native.Leasing``, each by the method of its name."""

    def __init__(
        self,
        client: _native.Client,
        waits: Waits,
        key: str | bytes,
        make: Callable[[], Any],
        leasing: _native.Leasing,
        flight: _Flight,
    ) -> None:
        self.client = client
        self._waits = waits
        self._key = key
        self._make = make
        self._leasing = leasing
        self._flight = flight
        self._value: Any = None
        self._error: Exception | None = None

    def run(self) -> Steps:
        name, details = "ask", ()
        try:
            while name not in ("take", "done", "give_up"):
                name, *details = yield from getattr(self, name)(*details)
        except BaseException:
            if self._leasing.win is not None:
                self._waits.give_back(self.client, self._key, *self._leasing.win)
            raise
        if name == "give_up":
            raise _gave_up(self._key)
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # which refers to this frame by its traceback

    def ask(self) -> Steps:
        found = yield self.client.ask_lease(self._key, self._leasing.lease, self._leasing.recache)
        self._value = found.value
        if found.state == "won" and found.has_value:
            self._flight.tell(self.client, found.value)
        return self._leasing.found(found)

    def wait(self, seconds: float) -> Steps:
        yield self._waits.sleep(seconds)
        return self._leasing.waited()

    def make(self) -> Steps:
        try:
            self._value = yield self._make()
        except Exception as error:
            self._error = error
            return self._leasing.failed()
        return self._leasing.made()

    def store(self, cas: int) -> Steps:
        try:
            yield self.client.cas(self._key, self._value, cas, ttl=self._leasing.ttl)
        except Exception as error:
            self._error = error
            return self._leasing.lost() if isinstance(error, OUTAGES) else self._leasing.failed()
        return self._leasing.stored()

    def give_back(self, cas: int, keep: bool) -> Steps:
        with contextlib.suppress(Error):
            yield self.client.give_back(self._key, cas, keep)
        return self._leasing.gave_back()


def _gave_up(key: str | bytes) -> LeaseTimeout:
    return LeaseTimeout(f"the value of {key!r} is still being made by another caller; wait says for how long to wait")
