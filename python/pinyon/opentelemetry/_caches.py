"""Metrics and spans of caches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pinyon._calls import CALLS
from pinyon.errors import Error
from pinyon.opentelemetry._observing import DURATIONS, Observer, address, buckets
from pinyon.opentelemetry._spans import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.metrics import Meter

    from pinyon._calls import Call
    from pinyon.metrics import CommandMetrics, ServerMetrics
    from pinyon.opentelemetry._observing import Attributes, Measured
    from pinyon.opentelemetry._spans import Tracing

SYSTEM = "memcached"


class Metrics(Observer):
    """The metrics of clients of caches."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        counter, level = self.counter, self.level
        counter("pinyon.client.commands", _commands, "{command}", "Commands that were answered.")
        counter("pinyon.client.errors", _errors, "{request}", "Requests that failed.")
        counter("pinyon.client.retries", _retries, "{request}", "Failed requests that were tried again.")
        counter("pinyon.client.io", _io, "By", "What was sent and received.")
        counter("pinyon.client.command.duration.sum", _total, "s", "How long all answers took.")
        counter(
            "pinyon.client.command.duration.bucket",
            _buckets,
            "{command}",
            "Answers that took no longer than the attribute le says, in seconds.",
        )
        level("db.client.connection.count", _connections, "{connection}", "Connections by their state.")
        level("pinyon.client.server.up", _up, "{client}", "Clients that have not marked the server down.")

    def measured(self) -> Iterator[ServerMetrics]:
        return (server for client in self.observed() for server in client.metrics().values())


def view(plain: Any, tracing: Tracing) -> Any:
    """Return a view of a client, the operations of which have spans."""
    return _traced(tracing, type(plain))._viewing(plain)


def _traced(tracing: Tracing, kind: type[Any]) -> Any:
    """Return a subclass, the operations of which have spans. A migrating client of its clients gets one, too."""
    body: dict[str, Any] = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    for name, call in CALLS.items():
        body[name] = _method(tracing, kind, name, call)
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
    return _address(servers[0]) if servers else {"db.system.name": SYSTEM}


def _commands(server: ServerMetrics) -> Iterator[Measured]:
    for command, attributes in _each_command(server):
        counts = {"hit": command.hits, "miss": command.misses}
        counts |= {"stored": command.stored, "not_stored": command.not_stored}
        counts["answered"] = command.answered - sum(counts.values())
        for outcome, count in counts.items():
            if count:
                yield count, {**attributes, "pinyon.outcome": outcome}


def _errors(server: ServerMetrics) -> Iterator[Measured]:
    for command, attributes in _each_command(server):
        for name, count in command.errors.items():
            yield count, {**attributes, "error.type": f"pinyon.errors.{name}"}


def _retries(server: ServerMetrics) -> Iterator[Measured]:
    return ((command.retries, attributes) for command, attributes in _each_command(server))


def _total(server: ServerMetrics) -> Iterator[Measured]:
    return ((command.latencies.total, attributes) for command, attributes in _each_command(server))


def _buckets(server: ServerMetrics) -> Iterator[Measured]:
    for command, attributes in _each_command(server):
        yield from buckets(command.latencies, DURATIONS, attributes)


def _io(server: ServerMetrics) -> Iterator[Measured]:
    yield server.bytes_sent, {**_address(server.server), "network.io.direction": "transmit"}
    yield server.bytes_received, {**_address(server.server), "network.io.direction": "receive"}


def _connections(server: ServerMetrics) -> Iterator[Measured]:
    attributes = {**_address(server.server), "db.client.connection.pool.name": server.server}
    yield server.connections - server.idle, {**attributes, "db.client.connection.state": "used"}
    yield server.idle, {**attributes, "db.client.connection.state": "idle"}


def _up(server: ServerMetrics) -> Iterator[Measured]:
    yield int(server.is_up), _address(server.server)


def _each_command(server: ServerMetrics) -> Iterator[tuple[CommandMetrics, Attributes]]:
    address = _address(server.server)
    return ((command, {**address, "db.operation.name": name}) for name, command in server.commands.items())


def _address(server: str) -> Attributes:
    return address(server, SYSTEM)
