"""The loggers ``pinyon.servers`` and ``pinyon.locks``: what happens to servers, in a line each.

Without any handler Python writes its warnings to stderr: that a server is down, and that it is back.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon.events import Event

LOGGER = logging.getLogger("pinyon.servers")
#: For the servers of locks.
LOCKS = logging.getLogger("pinyon.locks")

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}

#: Why values could not be read, as far as it was logged, and how many such lines there are at most.
_REASONS: set[str] = set()
_MOST_REASONS = 100

#: How long a fork waits, in seconds, for a line to be written to its end.
_LONGEST_WAIT = 5.0


def log(event: Event, logger: logging.Logger = LOGGER) -> None:
    """Write an event's line, where somebody wants it."""
    level = _LEVELS[event.level]
    if logger.isEnabledFor(level):
        with _fork:
            logger.log(level, "%s", event.line, extra={"pinyon_event": event})


def log_unreadable(error: Exception) -> None:
    """Write why a framework's own serializer cannot read a stored value, like the event ``"unreadable"``: once."""
    reason = f"{type(error).__qualname__}: {error}"
    if reason not in _REASONS and len(_REASONS) < _MOST_REASONS:
        _REASONS.add(reason)
        with _fork:
            LOGGER.warning("a stored value cannot be read, so it counts as missing: %s", reason)


def log_raised(error: BaseException, line: str, logger: logging.Logger) -> None:
    """Write what the user's code has raised where nothing of the user's awaits it, with the traceback."""
    with _fork:
        logger.error("%s", line, exc_info=error)


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

    A fork closes the door to further lines while it waits for the one being written, or busy threads would keep it
    waiting. A handler that takes longer than the longest wait is not waited for: it may wait for the thread that forks.
    """

    door = threading.RLock()
    writing = threading.RLock()
    #: Whether a fork has closed the door.
    is_closed = False
    is_forking = False
    has_waited = False

    def __init__(self) -> None:
        #: What this thread's lines hold, of which one may be written within another.
        self.held: list[Any] = []

    def __enter__(self) -> None:
        """Begin a line."""
        writing = _Fork.writing
        # A handler that uses a client may log in turn: it must not wait at the door for who waits for its line.
        makes_way = not self.held and not self.is_forking
        while True:
            if makes_way:
                with _Fork.door:
                    pass
            writing.acquire()
            if not (makes_way and _Fork.is_closed):
                break
            # It had passed the door and waited for another's line; the fork waits for that one only.
            writing.release()
        self.held.append(writing)

    def __exit__(self, *_: object) -> None:
        self.held.pop().release()

    def prepare(self) -> None:
        _Fork.door.acquire()
        _Fork.is_closed = self.is_forking = True
        self.has_waited = _Fork.writing.acquire(timeout=_LONGEST_WAIT)

    def go_on(self) -> None:
        if self.has_waited:
            _Fork.writing.release()
        _Fork.is_closed = self.is_forking = False
        _Fork.door.release()

    def begin(self) -> None:
        _Fork.door = threading.RLock()
        _Fork.writing = threading.RLock()
        _Fork.is_closed = self.is_forking = False


_fork = _Fork()
os.register_at_fork(before=_fork.prepare, after_in_parent=_fork.go_on, after_in_child=_fork.begin)
