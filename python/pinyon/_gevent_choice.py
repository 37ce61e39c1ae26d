"""How ``pinyon.Client`` and ``pinyon.Locks`` come to let other greenlets run when gevent has patched the process.

Some programs make clients before gevent patches, others patch before they import Pinyon; only the first use of a client
tells which it is. Until then a client is of a class that decides and steps aside.
"""

from __future__ import annotations

import sys
from typing import Any


def is_patched() -> bool:
    """Whether gevent has replaced this process's sockets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("socket"))


def undecided(blocking: type[Any], methods: frozenset[str], name: str, *settings: Any) -> type[Any]:
    """The class of clients that have not been used yet: asked for a method, they become blocking ones, or gevent's.

    It is the look-up of the method that decides, so that one kept in a variable is the real one.

    Args:
        blocking: the class of clients that block.
        methods: those that decide.
        name: of the class in ``pinyon.gevent``.
        settings: what ``share`` is told besides the loops.
    """

    def decide(client: Any) -> None:
        if not is_patched():
            client.__class__ = blocking
            return
        from pinyon import gevent

        client.__class__ = getattr(gevent, name)
        client._share(*gevent.LOOPS, *settings)

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
