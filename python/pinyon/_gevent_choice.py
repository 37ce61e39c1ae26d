"""How ``pinyon.Client`` and ``pinyon.Locks`` cooperate with greenlets if gevent has patched the process.

Some programs make clients before gevent patches, others patch before they import Pinyon. So a client checks for
patching when it is first used.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinyon._loop_driver import Concurrency, Loops

BLOCKS_EVENTLET = (
    "eventlet has patched this process, but pinyon.{} does not cooperate with it: all greenlets wait while it waits. "
    "Move the program to gevent or asyncio, or call the client by eventlet.tpool.execute"
)


def is_patched() -> bool:
    """Whether gevent has replaced this process's sockets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("socket"))


def is_patched_by_eventlet() -> bool:
    """Whether eventlet has replaced this process's sockets."""
    patcher = sys.modules.get("eventlet.patcher")
    return patcher is not None and bool(patcher.is_monkey_patched("socket"))


def choose_for(name: str) -> Concurrency:
    """Return what decides for a client on its first use: hubs of gevent, or None for threads.

    Args:
        name: the name of the client's class.
    """

    def choose() -> Loops | None:
        if is_patched():
            from pinyon._gevent_driver import LOOPS

            return LOOPS
        if is_patched_by_eventlet():
            warnings.warn(BLOCKS_EVENTLET.format(name), RuntimeWarning, stacklevel=2)
        return None

    return choose
