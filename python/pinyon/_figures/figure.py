"""One figure, and what the figures of caches and of locks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Literal, TypeAlias

    Attributes: TypeAlias = dict[str, Any]

#: Seconds: those of the conventions, and finer ones below them, where a cache's times are.
DURATIONS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class Figure(NamedTuple):
    """A figure.

    Attributes:
        name: its name in OpenTelemetry.
        kind: a counter only rises, a level does not; the values of a histogram are ``Latencies``.
        unit: its unit, by UCUM.
        text: what it says.
        of: yields its values in a part of a client's metrics, with the attributes of each.
        bounds: those of the buckets of a histogram, in seconds.
    """

    name: str
    kind: Literal["counter", "level", "histogram"]
    unit: str
    text: str
    of: Callable[[Any], Iterator[tuple[Any, Attributes]]]
    bounds: tuple[float, ...] = ()


def address(server: str, system: str) -> Attributes:
    """Return what the conventions say of a server that has this name. Several servers are one name."""
    host, colon, port = server.rpartition(":")
    if server.startswith("/") or "," in server or not colon or not port.isdigit():
        return {"db.system.name": system, "server.address": server}
    return {"db.system.name": system, "server.address": host.strip("[]"), "server.port": int(port)}
