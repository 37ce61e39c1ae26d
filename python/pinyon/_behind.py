"""Makers that go on behind callers of ``get_or_set``: a caller waits a while, and then leaves with the old value.

The maker runs in a task, a greenlet or a thread of its own. As long as the caller waits, the machine is the caller's;
then it is the maker's.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from pinyon._steps import drive

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeAlias

    from pinyon import _native
    from pinyon._steps import Steps

    #: Tells the machine what has become of the maker, and returns the next step.
    _Tell: TypeAlias = Callable[[], tuple[Any, ...]]

#: The caller waits for the maker; has its outcome, or wants none; has left without. The maker has done its part since.
_AWAITED, _TAKEN, _LEFT, _OVER = range(4)


class Behind:
    """A maker that may go on behind its caller.

    Args:
        machine: the caller's.
        make: makes the value.
        made: turns what ``make`` returned into the value.
        go_on: carries out the machine's steps, from the given one on.
        waits: how callers of the client wait: a ``Waits``.
    """

    def __init__(
        self,
        machine: _native.GetOrSet,
        make: Callable[[], Any],
        made: Callable[[Any], Any],
        go_on: Callable[..., Steps],
        waits: Any,
    ) -> None:
        self._machine = machine
        self._make = make
        self._made = made
        self._go_on = go_on
        self._waits = waits
        self._signal = waits.signal()
        self._lock = threading.Lock()
        self._state = _AWAITED
        #: Returns the caller's next step.
        self._tell: _Tell
        #: Ends the task, the greenlet or the call of a thread that carries out ``run``, if that can be ended.
        self.stop: Callable[[], object] = lambda: None

    def begin(self, client: _native.Client, executor: Any, seconds: float) -> Any:
        """Begin the maker, and wait for it. A coroutine awaits what this returns."""
        if seconds == 0:  # its caller gets the old value even if the maker is quicker
            self._leave()
        try:
            self._waits.beside(client, self, executor)
        except BaseException:
            self._state = _TAKEN
            raise
        return self._waits.wait(self._signal, seconds) if seconds else None

    def next_step(self) -> tuple[Any, ...]:
        """Return the caller's next step: what follows the maker, or the end with the old value."""
        with self._lock:
            if self._state == _AWAITED:
                self._leave()
        return self._tell()

    def is_callers(self) -> bool:
        """Whether the machine is the caller's, who goes away now. A maker that still runs is stopped."""
        with self._lock:
            is_awaited = self._state == _AWAITED
            if is_awaited:
                self._state = _TAKEN
        if is_awaited:
            self.stop()
        return self._state == _TAKEN

    def run(self) -> Steps:
        """Make the value. If the caller has left, carry out the rest: store the value, or give the lease back."""
        try:
            made = self._made((yield self._make()))
        except Exception as error:
            tell = partial(self._machine.failed, error)
        except BaseException as error:
            self.ended(error)
            raise
        else:
            tell = partial(self._machine.made, made)
        if not self._is_left(tell):
            return
        try:
            yield from self._go_on(*tell())
        finally:
            self._machine.abandon()

    def refused(self, error: BaseException) -> None:
        """Take note that what was to carry out ``run`` has failed."""
        tell = partial(self._machine.failed, error)
        if self._is_left(tell):
            drive(self._go_on(*tell()))

    def ended(self, error: BaseException) -> None:
        """Take note that nothing carries out ``run`` any more. The caller raises the error, if it still waits."""
        if self._is_left(partial(_raise, error)):
            self._machine.abandon()

    def close(self) -> None:
        """End a maker whose caller has left, and give its lease back."""
        with self._lock:
            is_left = self._state == _LEFT
            if is_left:
                self._state = _OVER
        if is_left:
            self._machine.abandon()
            self.stop()

    def _leave(self) -> None:
        """Have the caller leave: the machine is the maker's from now on."""
        self._state, last = _LEFT, self._machine.late()
        self._tell = lambda: last

    def _is_left(self, tell: _Tell) -> bool:
        """Pass on what has become of the maker. Returns whether the caller has left, so that the maker is to go on."""
        with self._lock:
            is_left = self._state == _LEFT
            if is_left:
                self._state = _OVER
            if self._state == _AWAITED:
                self._state, self._tell = _TAKEN, tell
        self._signal.set()
        return is_left


def _raise(error: BaseException) -> NoReturn:
    raise error
