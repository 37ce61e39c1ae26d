"""How ``pinyon.Client`` and ``pinyon.Locks`` cooperate with greenlets if gevent has patched the process.

Some programs make clients before gevent patches, others patch before they import Pinyon. So a client checks for
patching on its first use. Until then it has a class of its own, which is replaced then.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

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


def undecided(blocking: type[Any], methods: frozenset[str], name: str) -> type[Any]:
    """Return the class of clients that have not been used yet. On first use they become blocking ones, or gevent's.

    The look-up of a method decides, not its call, so that a method kept in a variable is the right one.

    Args:
        blocking: the class of clients that block.
        methods: the methods whose look-up decides.
        name: the name of the class in ``pinyon.gevent``.
    """

    def decide(client: Any) -> None:
        if not is_patched():
            client.__class__ = blocking
            if is_patched_by_eventlet():
                warnings.warn(BLOCKS_EVENTLET.format(name), RuntimeWarning, stacklevel=3)
            return
        from pinyon import gevent

        client.__class__ = getattr(gevent, name)
        client._share(*gevent.LOOPS)

    def look_up(self: Any, name: str) -> Any:
        if name in methods:
            decide(self)
            return getattr(self, name)
        return object.__getattribute__(self, name)

    body = {
        "__slots__": (),
        "__module__": blocking.__module__,
        "__qualname__": blocking.__qualname__,
        "__getattribute__": look_up,
    }
    return type(blocking.__name__, (blocking,), body)
