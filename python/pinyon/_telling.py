"""The thread that calls ``on_lost`` when a lock is lost, and how events of locks reach ``on_event``.

Each process has one such thread. It sleeps in the core without the GIL.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from pinyon import _native
from pinyon._logging import LOCKS, log

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon.events import Event


class Listening(Protocol):
    """Locks with an ``on_event``, perhaps."""

    _on_event: Callable[[Event], object] | None

    @property
    def _source(self) -> int: ...


#: That of this process, and of the one that it was forked from.
_threads: list[threading.Thread] = []
#: The clients with an ``on_event``, by the source of their events. This does not keep them alive.
_listening: weakref.WeakValueDictionary[int, Listening] = weakref.WeakValueDictionary()


def listen(locks: Listening) -> None:
    """Let a client's ``on_event`` have its events."""
    _listening[locks._source] = locks


def report(source: int, event: Event, soon: Callable[[Callable[[Event], object], Event], Any] | None) -> None:
    """Log an event of locks, and call the ``on_event`` of its client: by ``soon`` in an event loop."""
    log(event, LOCKS)
    locks = _listening.get(source)
    on_event = None if locks is None else locks._on_event
    if on_event is None:
        return
    if soon is None:
        on_event(event)
    else:
        soon(on_event, event)


def start(report: Callable[..., Any]) -> None:
    """Start this process's thread. ``report`` is called with each event and its source."""
    thread = threading.Thread(target=_native.tell_threads, args=(report,), name="pinyon-locks-told", daemon=True)
    thread.start()
    _threads[:] = [thread]


@atexit.register
def _stop() -> None:
    """End the thread before the interpreter ends."""
    _native.stop_telling()
    for thread in _threads:
        thread.join(1)
