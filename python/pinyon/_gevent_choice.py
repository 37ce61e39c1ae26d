"""How ``pinyon.Client`` comes to let other greenlets run when gevent has patched the process.

Programs make clients before gevent patches, and patch before they import Pinyon; only the first use of a client tells
which it is. Until then a client is of a class whose methods decide and step aside.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinyon.client import BaseClient

METHODS = (
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


def is_patched() -> bool:
    """Whether gevent has replaced this process's sockets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("socket"))


def undecided(blocking: type[BaseClient]) -> type[BaseClient]:
    """The class of clients that have not been used yet: at first use they become blocking ones, or gevent's."""

    def decide(client: BaseClient) -> None:
        if not is_patched():
            client.__class__ = blocking
            return
        from pinyon import gevent

        client.__class__ = gevent.Client
        client.share(*gevent.LOOPS, 1)

    def deciding(name: str) -> Any:
        def call(self: BaseClient, *arguments: Any, **settings: Any) -> Any:
            decide(self)
            return getattr(self, name)(*arguments, **settings)

        return call

    methods: dict[str, Any] = {name: deciding(name) for name in METHODS}
    names = {"__slots__": (), "__module__": blocking.__module__, "__qualname__": blocking.__qualname__}
    return type(blocking.__name__, (blocking,), {**methods, **names})
