"""The thread that calls ``on_lost`` when a lock is lost."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any

from pinyon import _native

#: That of this process, and of the one that it was forked from.
_threads: list[threading.Thread] = []


def start(warn: Callable[[str], Any]) -> None:
    """Start this process's thread. ``warn`` is called with warnings for the people who run the program."""
    thread = threading.Thread(target=_native.tell_threads, args=(warn,), name="pinyon-locks-told", daemon=True)
    thread.start()
    _threads[:] = [thread]


@atexit.register
def _stop() -> None:
    """End the thread before the interpreter ends."""
    _native.stop_telling()
    for thread in _threads:
        thread.join(1)
