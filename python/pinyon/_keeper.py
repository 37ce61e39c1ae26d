"""The thread that renews locks, and tells of those that are lost, while the program's own threads do other things."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinyon import _native

#: The threads of this process, and what each looks after.
_running: dict[threading.Thread, _native.Keeper] = {}


def keep_in_thread(keeper: _native.Keeper, warn: Callable[[str], Any]) -> None:
    """Look after a client's locks until it is closed."""
    thread = threading.Thread(target=_keep, args=(keeper, warn), name="pinyon-locks", daemon=True)
    _running[thread] = keeper
    try:
        thread.start()
    except BaseException:
        del _running[thread]
        raise


def _keep(keeper: _native.Keeper, warn: Callable[[str], Any]) -> None:
    try:
        while keeper.keep(warn):
            pass
    finally:
        _running.pop(threading.current_thread(), None)


def _stop_all() -> None:
    """End the threads: the interpreter is about to."""
    for thread, keeper in list(_running.items()):
        keeper.close()
        thread.join(1)


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_running.clear)
