"""The thread that renews locks, and tells of those that are lost, while the program's own threads do other things."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinyon import _native

_all: weakref.WeakSet[Keeper] = weakref.WeakSet()


class Keeper:
    """Starts the thread when there is something to keep, once in each process."""

    __slots__ = ("__weakref__", "_locks", "_starting", "_thread", "_warn")

    def __init__(self, locks: _native.Locks, warn: Callable[[str], Any]) -> None:
        self._locks = weakref.ref(locks)
        self._warn = warn
        self._begin_anew()
        _all.add(self)

    def _begin_anew(self) -> None:
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """See to it that the thread runs."""
        if self._thread is not None:
            return
        with self._starting:
            locks = self._locks()
            if self._thread is None and locks is not None and not locks.is_closed:
                arguments = (locks.keeper(), self._warn)
                self._thread = threading.Thread(target=_keep, args=arguments, name="pinyon-locks", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End the thread: the interpreter is about to."""
        locks, thread = self._locks(), self._thread
        if locks is not None and thread is not None:
            locks.close()
            thread.join(1)


def _keep(keeper: _native.Keeper, warn: Callable[[str], Any]) -> None:
    while keeper.keep(warn):
        pass


def _stop_all() -> None:
    for keeper in list(_all):
        keeper.stop()


def _begin_anew_in_child() -> None:
    for keeper in list(_all):
        keeper._begin_anew()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_begin_anew_in_child)
