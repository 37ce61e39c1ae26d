"""The logger ``pinyon.servers``: what happens to servers, in a line each. It is silent until logging is set up."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon.events import Event

LOGGER = logging.getLogger("pinyon.servers")
LOGGER.addHandler(logging.NullHandler())

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}

#: How long a fork waits, in seconds, for a line to be written to its end.
_LONGEST_WAIT = 1.0


def log(event: Event) -> None:
    """Write an event's line, where somebody wants it."""
    level = _LEVELS[event.level]
    if LOGGER.isEnabledFor(level):
        with _fork.writing:
            LOGGER.log(level, "%s", event.line, extra={"pinyon_event": event})


def logging_too(on_event: Callable[[Event], object] | None) -> Callable[[Event], object]:
    """Return what logs an event and then calls ``on_event`` with it."""
    if on_event is None:
        return log

    def log_and_tell(event: Event) -> object:
        log(event)
        return on_event(event)

    return log_and_tell


class _Fork(threading.local):
    """No line is half written while the process forks: the file's own lock would stay held in the child for ever.

    A handler that takes longer than the longest wait is not waited for, as it may wait for the thread that forks.
    """

    writing = threading.RLock()
    has_waited = False

    def prepare(self) -> None:
        self.has_waited = _Fork.writing.acquire(timeout=_LONGEST_WAIT)

    def go_on(self) -> None:
        if self.has_waited:
            _Fork.writing.release()

    def begin(self) -> None:
        _Fork.writing = threading.RLock()


_fork = _Fork()
os.register_at_fork(before=_fork.prepare, after_in_parent=_fork.go_on, after_in_child=_fork.begin)
