"""Spans of caches."""

from __future__ import annotations

from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any

from pinyon._calls import CALLS
from pinyon._figures.caches import SYSTEM
from pinyon._figures.figure import address
from pinyon.errors import Error
from pinyon.opentelemetry._spans import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon._calls import Call
    from pinyon._figures.figure import Attributes
    from pinyon.opentelemetry._spans import Tracing


def view(plain: Any, tracing: Tracing) -> Any:
    """Return a view of a client, the operations of which have spans."""
    return _traced(tracing, type(plain))._viewing(plain)


def _traced(tracing: Tracing, kind: type[Any]) -> Any:
    """Return a subclass, the operations of which have spans. A migrating client of its clients gets one, too."""
    body: dict[str, Any] = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    for name, call in CALLS.items():
        body[name] = _method(tracing, kind, name, call)
    body["_sending"] = partialmethod(_sent, tracing)
    body["_traced"] = staticmethod(partial(_traced, tracing))
    return type(kind.__name__, (kind,), body)


def _method(tracing: Tracing, kind: type, name: str, call: Call) -> Any:
    """Return a class's method, each call of which is an operation. So is what ``get_or_set`` and ``lease`` ask."""
    plain, command = getattr(kind, name), call.name.removesuffix("_many")

    def operation(client: Any, *arguments: Any, **settings: Any) -> Any:
        size, attributes = None, {"db.system.name": SYSTEM}
        if call.asks == "keys":
            size, arguments = _size(arguments)
        elif call.asks == "key":
            attributes = _of_key(client, arguments[0] if arguments else settings.get("key"))
        batch = size is not None and size > 1
        attributes["db.operation.name"] = f"BATCH {command}" if batch else command
        begun = Operation(tracing, attributes, {"db.operation.batch.size": size} if batch else {})
        return begun.run(lambda: plain(client, *arguments, **settings))

    operation.__name__, operation.__doc__ = name, plain.__doc__
    return operation


def _sent(_client: Any, tracing: Tracing, call: str, keys: int, send: Callable[[], Any]) -> Any:
    """Send the requests of ``get_or_set_many`` for so many keys, as one operation."""
    batch = keys > 1
    attributes = {"db.system.name": SYSTEM, "db.operation.name": f"BATCH {call}" if batch else call}
    begun = Operation(tracing, attributes, {"db.operation.batch.size": keys} if batch else {})
    return begun.run(send)


def _size(arguments: tuple[Any, ...]) -> tuple[int | None, tuple[Any, ...]]:
    """Return how many keys there are, and the arguments again: the keys of an iterator are taken from it."""
    if not arguments:
        return None, arguments
    first, *others = arguments
    if isinstance(first, (str, bytes)):
        return None, arguments
    if not hasattr(first, "__len__"):
        first = list(first)
    return len(first), (first, *others)


def _of_key(client: Any, key: Any) -> Attributes:
    try:
        servers = client.servers_of(key)
    except (TypeError, Error):
        servers = []
    return address(servers[0], SYSTEM) if servers else {"db.system.name": SYSTEM}
