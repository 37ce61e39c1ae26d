"""OpenTelemetry: the metrics of clients, and a span for each operation if you want them.

Only the API package is needed: ``pip install pinyon[opentelemetry]``. Names follow the semantic conventions for
database clients. Other names begin with ``pinyon.``. No key, value or error text is reported.
"""

from __future__ import annotations

import time
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

try:
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError as _missing:
    raise ImportError("pinyon.opentelemetry needs its API: pip install 'pinyon[opentelemetry]'") from _missing

from pinyon import _native
from pinyon.client import BaseClient
from pinyon.errors import Error, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from pinyon.metrics import CommandMetrics, ServerMetrics

    Attributes = dict[str, Any]
    #: What is measured, and of what.
    Measured = tuple[float, Attributes]

__all__ = ["instrument", "traced"]

_Client = TypeVar("_Client")

SYSTEM = "memcached"
DEFAULT_PORT = 11211
#: Seconds: those of the conventions, and finer ones below them, where a cache's times are.
DURATIONS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)

_STORING = ("set", "add", "replace", "append", "prepend", "cas")
#: Methods that are operations of one key, of many at once, and of servers, with the name of each operation. What
#: ``get_or_set`` and ``lease`` ask is an operation each time.
_OF_A_KEY = {
    **{name: name for name in ("get", "gets", "gat", "get_with_ttl", "meta", "touch", "delete", "incr", "decr")},
    **{name: name for name in _STORING},
    "_ask_lease": "lease",
    "_give_back": "give_back",
}
_OF_MANY = {"get_many": "get", "gets_many": "gets", "set_many": "set", "delete_many": "delete"}
_OF_SERVERS = {name: name for name in ("flush_all", "stats", "version")}


def instrument(client: Any, *, meter_provider: MeterProvider | None = None) -> None:
    """Report the metrics of a client, as long as it exists.

    The metrics are read when they are collected, which costs operations nothing. Call this in each process that
    collects metrics, also after a fork.

    Args:
        client: a client of any concurrency model. Its views are included. The metrics of several clients are added up.
        meter_provider: by default the global one.

    Raises:
        UsageError: this is not a client, or a migrating one.
    """
    _check(client)
    meter = metrics.get_meter("pinyon", _native.__version__, meter_provider)
    if meter not in _observers:
        _observers[meter] = _Observer(meter)
    _observers[meter].clients.add(client)


def traced(
    client: _Client, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> _Client:
    """Return a view of a client. Each of its operations makes a span, and counts in ``db.client.operation.duration``.

    The view shares everything else with the client, which itself still makes no spans. A span costs more than the
    operation, so use it only where you need it. A batch (``quiet``) makes no spans.

    Args:
        client: a client of any concurrency model.
        tracer_provider: by default the global one.
        meter_provider: by default the global one.

    Returns:
        The view.

    Raises:
        UsageError: this is not a client, or a migrating one.
    """
    _check(client)
    plain: Any = client
    plain.using  # noqa: B018  # a client that has not decided yet how it waits does so now
    operations = _Operations(
        trace.get_tracer("pinyon", _native.__version__, tracer_provider),
        metrics.get_meter("pinyon", _native.__version__, meter_provider),
    )
    kind = type(plain)
    body: dict[str, Any] = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    for name, command in {**_OF_A_KEY, **_OF_MANY, **_OF_SERVERS}.items():
        body[name] = operations.method(kind, name, command)
    view: _Client = _native.Client.__new__(type(kind.__name__, (kind,), body), plain, failover=None, on_failure=None)
    return view


def _check(client: Any) -> None:
    if not isinstance(client, BaseClient):
        raise UsageError(
            f"a client of pinyon, pinyon.gevent or pinyon.aio is wanted, not {type(client).__qualname__}; "
            "of a migrating client its old and its new one, before they are made one"
        )


class _Observer:
    """Asynchronous instruments over the clients of a meter."""

    def __init__(self, meter: Meter) -> None:
        self.clients: weakref.WeakSet[Any] = weakref.WeakSet()
        counter, level = meter.create_observable_counter, meter.create_observable_up_down_counter
        counter("pinyon.client.commands", self._told(_commands), "{command}", "Commands that were answered.")
        counter("pinyon.client.errors", self._told(_errors), "{request}", "Requests that failed.")
        counter("pinyon.client.retries", self._told(_retries), "{request}", "Failed requests that were tried again.")
        counter("pinyon.client.io", self._told(_io), "By", "What was sent and received.")
        counter("pinyon.client.command.duration.sum", self._told(_total), "s", "How long all answers took.")
        counter(
            "pinyon.client.command.duration.bucket",
            self._told(_buckets),
            "{command}",
            "Answers that took no longer than the attribute le says, in seconds.",
        )
        level("db.client.connection.count", self._told(_connections), "{connection}", "Connections by their state.")
        level("pinyon.client.server.up", self._told(_up), "{client}", "Clients that have not marked the server down.")

    def _told(
        self, figures: Callable[[ServerMetrics], Iterator[Measured]]
    ) -> list[Callable[[CallbackOptions], Iterable[Observation]]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            sums: Counter[tuple[tuple[str, Any], ...]] = Counter()
            for client in list(self.clients):
                for server in client.metrics().values():
                    for value, attributes in figures(server):
                        sums[tuple(attributes.items())] += value  # type: ignore[assignment]
            return [Observation(value, dict(attributes)) for attributes, value in sums.items()]

        return [observe]


_observers: weakref.WeakKeyDictionary[Meter, _Observer] = weakref.WeakKeyDictionary()


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
        for bound in DURATIONS:
            yield command.latencies.within(bound), {**attributes, "le": f"{bound:g}"}
        yield command.latencies.count, {**attributes, "le": "+Inf"}


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
    """What the conventions say of a server that has this name."""
    host, colon, port = server.rpartition(":")
    if server.startswith("/") or not colon or not port.isdigit():
        return {"db.system.name": SYSTEM, "server.address": server}
    return {"db.system.name": SYSTEM, "server.address": host.strip("[]"), "server.port": int(port)}


class _Operations:
    """Makes methods that are operations with a span."""

    def __init__(self, tracer: trace.Tracer, meter: Meter) -> None:
        self._tracer = tracer
        self._durations = meter.create_histogram(
            "db.client.operation.duration",
            "s",
            "Duration of database client operations.",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )

    def method(self, kind: type, name: str, command: str) -> Any:
        """Return a class's method, each call of which is an operation."""
        plain = getattr(kind, name)

        def operation(client: Any, *arguments: Any, **settings: Any) -> Any:
            begun = _Begun(self, client, command, name, arguments, settings)
            try:
                outcome = plain(client, *begun.arguments, **begun.settings)
            except BaseException as error:
                begun.end(error)
                raise
            if not hasattr(outcome, "add_done_callback"):
                begun.end(None)
                return outcome
            outcome.add_done_callback(begun.done)
            return outcome

        operation.__name__, operation.__doc__ = name, plain.__doc__
        return operation

    def start(self, name: str, attributes: Attributes) -> Span:
        address = attributes.get("server.address")
        port = f":{attributes['server.port']}" if "server.port" in attributes else ""
        target = f" {address}{port}" if address else ""
        return self._tracer.start_span(f"{name}{target}", kind=SpanKind.CLIENT, attributes=attributes)

    def record(self, seconds: float, attributes: Attributes) -> None:
        self._durations.record(seconds, attributes)


class _Begun:
    """An operation that has begun."""

    def __init__(
        self,
        operations: _Operations,
        client: Any,
        command: str,
        method: str,
        arguments: tuple[Any, ...],
        settings: dict[str, Any],
    ) -> None:
        self._operations = operations
        self.arguments, self.settings = arguments, settings
        attributes: Attributes = {"db.system.name": SYSTEM}
        size = None
        if method in _OF_MANY:
            size = self._size()
        elif method in _OF_A_KEY:
            attributes = self._of_key(client)
        batch = size is not None and size > 1
        name = attributes["db.operation.name"] = f"BATCH {command}" if batch else command
        self._attributes = attributes
        more = {"db.operation.batch.size": size} if batch else {}
        self._span = operations.start(name, {**attributes, **more})
        self._at = time.perf_counter()

    def end(self, error: BaseException | None) -> None:
        seconds = time.perf_counter() - self._at
        attributes = self._attributes
        if error is not None:
            attributes = {**attributes, "error.type": _type_of(error)}
            if isinstance(error, Error) and error.server is not None:
                attributes.update(_address(error.server))
            self._span.set_attributes(attributes)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        self._operations.record(seconds, attributes)

    def done(self, future: Any) -> None:
        """A task's operation is over."""
        if future.cancelled():
            return self.end(_Cancelled())
        return self.end(future.exception())

    def _size(self) -> int | None:
        """How many keys there are; those of an iterator are taken from it."""
        if not self.arguments:
            return None
        first, *others = self.arguments
        if isinstance(first, (str, bytes)):
            return None
        if not hasattr(first, "__len__"):
            first = list(first)
        self.arguments = (first, *others)
        return len(first)

    def _of_key(self, client: Any) -> Attributes:
        key = self.arguments[0] if self.arguments else self.settings.get("key")
        try:
            servers = client.servers_of(key)
        except (TypeError, Error):
            servers = []
        return _address(servers[0]) if servers else {"db.system.name": SYSTEM}


class _Cancelled(Exception):
    """Nobody waits any more."""


def _type_of(error: BaseException) -> str:
    if isinstance(error, _Cancelled):
        return "cancelled"
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
