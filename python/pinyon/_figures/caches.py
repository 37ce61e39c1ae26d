"""The figures of clients of caches. A part is the ``ServerMetrics`` of a server or a client's ``NearMetrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pinyon._figures.figure import DURATIONS, Figure, address
from pinyon.metrics import NearMetrics, ServerMetrics

if TYPE_CHECKING:
    from pinyon._figures.figure import Attributes
    from pinyon.metrics import CommandMetrics

SYSTEM = "memcached"


def parts(client: Any) -> Iterable[ServerMetrics | NearMetrics]:
    """Return the metrics of each server of a client, and those of its hot keys if it has kept any."""
    metrics: dict[str, ServerMetrics] = client.metrics()
    near: NearMetrics = client.near_metrics()
    return [*metrics.values(), *([near] if near != NearMetrics() else [])]


def _commands(server: ServerMetrics) -> Iterator[tuple[int, Attributes]]:
    for command, attributes in _each_command(server):
        counts = {"hit": command.hits, "miss": command.misses}
        counts |= {"stored": command.stored, "not_stored": command.not_stored}
        counts["answered"] = command.answered - sum(counts.values())
        for outcome, count in counts.items():
            if count:
                yield count, {**attributes, "pinyon.outcome": outcome}


def _errors(server: ServerMetrics) -> Iterator[tuple[int, Attributes]]:
    for command, attributes in _each_command(server):
        for name, count in command.errors.items():
            yield count, {**attributes, "error.type": f"pinyon.errors.{name}"}


def _retries(server: ServerMetrics) -> Iterator[tuple[int, Attributes]]:
    return ((command.retries, attributes) for command, attributes in _each_command(server))


def _kept(server: ServerMetrics) -> Iterator[tuple[int, Attributes]]:
    yield server.command("lease").kept, address(server.server, SYSTEM)


def _latencies(server: ServerMetrics) -> Iterator[tuple[Any, Attributes]]:
    return ((command.latencies, attributes) for command, attributes in _each_command(server))


def _io(server: ServerMetrics) -> Iterator[tuple[int, Attributes]]:
    of_server = address(server.server, SYSTEM)
    yield server.bytes_sent, {**of_server, "network.io.direction": "transmit"}
    yield server.bytes_received, {**of_server, "network.io.direction": "receive"}


def _connections(server: ServerMetrics) -> Iterator[tuple[int, Attributes]]:
    attributes = {**address(server.server, SYSTEM), "db.client.connection.pool.name": server.server}
    yield server.connections - server.idle, {**attributes, "db.client.connection.state": "used"}
    yield server.idle, {**attributes, "db.client.connection.state": "idle"}


def _up(server: ServerMetrics) -> Iterator[tuple[int, Attributes]]:
    yield int(server.is_up), address(server.server, SYSTEM)


def _each_command(server: ServerMetrics) -> Iterator[tuple[CommandMetrics, Attributes]]:
    of_server = address(server.server, SYSTEM)
    return ((command, {**of_server, "db.operation.name": name}) for name, command in server.commands.items())


def _near(name: str) -> Callable[[NearMetrics], Iterator[tuple[int, Attributes]]]:
    def of(near: NearMetrics) -> Iterator[tuple[int, Attributes]]:
        yield getattr(near, name), {"db.system.name": SYSTEM}

    return of


def _only(kind: type, figure: Figure) -> Figure:
    """Return the figure of the parts of this kind alone."""

    def of(part: Any) -> Iterator[tuple[Any, Attributes]]:
        return figure.of(part) if isinstance(part, kind) else iter(())

    return figure._replace(of=of)


_OF_SERVERS = (
    Figure("pinyon.client.commands", "counter", "{command}", "Commands that were answered.", _commands),
    Figure("pinyon.client.errors", "counter", "{request}", "Requests that failed.", _errors),
    Figure("pinyon.client.retries", "counter", "{request}", "Failed requests that were tried again.", _retries),
    Figure("pinyon.client.kept", "counter", "{value}", "Old values kept because making new ones failed.", _kept),
    Figure("pinyon.client.io", "counter", "By", "What was sent and received.", _io),
    Figure("pinyon.client.command.duration", "histogram", "s", "How long answers took.", _latencies, DURATIONS),
    Figure("db.client.connection.count", "level", "{connection}", "Connections by their state.", _connections),
    Figure("pinyon.client.server.up", "level", "{client}", "Clients that have not marked the server down.", _up),
)

_OF_NEAR = (
    Figure("pinyon.client.near.hits", "counter", "{value}", "Values returned from memory.", _near("hits")),
    Figure("pinyon.client.near.fills", "counter", "{value}", "Values read and kept in memory.", _near("fills")),
    Figure("pinyon.client.near.revalidations", "counter", "{value}", "Old values read again.", _near("revalidations")),
    Figure("pinyon.client.near.evictions", "counter", "{value}", "Values that made room.", _near("evictions")),
    Figure("pinyon.client.near.memory", "level", "By", "The memory of hot keys.", _near("bytes")),
)

FIGURES = (
    *(_only(ServerMetrics, figure) for figure in _OF_SERVERS),
    *(_only(NearMetrics, figure) for figure in _OF_NEAR),
)
