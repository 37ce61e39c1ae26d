"""How ``pinyon.Client`` comes to let other greenlets run when gevent has patched the process.

Some programs make clients before gevent patches, others patch before they import Pinyon; only the first use of a client
tells which it is. Until then a client is of a class that decides and steps aside.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinyon.client import BaseClient

METHODS = frozenset(
    (
        "get",
        "get_many",
        "gets",
        "gat",
        "touch",
        "set",
        "add",
        "replace",
        "append",
        "prepend",
        "cas",
        "set_many",
        "delete",
        "delete_many",
        "incr",
        "decr",
        "meta",
        "quiet",
        "flush_all",
        "stats",
        "version",
    )
)


def is_patched() -> bool:
    """Whether gevent has replaced this process's sockets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("socket"))


def undecided(blocking: type[BaseClient]) -> type[BaseClient]:
    """The class of clients that have not been used yet: asked for a command, they become blocking ones, or gevent's.

    It is the look-up of the command that decides, so that a method kept in a variable is the real one.
    """

    def decide(client: BaseClient) -> None:
        if not is_patched():
            client.__class__ = blocking
            return
        from pinyon import gevent

        client.__class__ = gevent.Client
        client.share(*gevent.LOOPS, 1)

    def look_up(self: BaseClient, name: str) -> Any:
        if name in METHODS:
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
