"""Counters that are read when metrics are collected."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import CallbackOptions, Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opentelemetry.metrics import Meter

    from pinyon.metrics import Latencies

    Attributes = dict[str, Any]
    #: What is measured, and of what.
    Measured = tuple[float, Attributes]
    #: What a part of a client's metrics comes to.
    Figures = Callable[[Any], Iterator[Measured]]

#: Seconds: those of the conventions, and finer ones below them, where a cache's times are.
DURATIONS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class Observer:
    """Asynchronous instruments over the clients of a meter."""

    def __init__(self, meter: Meter) -> None:
        self.clients: weakref.WeakSet[Any] = weakref.WeakSet()
        self._meter = meter

    def observed(self) -> Iterable[Any]:
        """Return each client once, also if views of it are observed, too."""
        return {client._source: client for client in list(self.clients)}.values()

    def measured(self) -> Iterable[Any]:
        """Return the metrics of all clients, in the parts that ``Figures`` take."""
        raise NotImplementedError

    def counter(self, name: str, figures: Figures, unit: str, description: str) -> None:
        self._meter.create_observable_counter(name, self._told(figures), unit, description)

    def level(self, name: str, figures: Figures, unit: str, description: str) -> None:
        self._meter.create_observable_up_down_counter(name, self._told(figures), unit, description)

    def _told(self, figures: Figures) -> list[Callable[[CallbackOptions], Iterable[Observation]]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            sums: Counter[tuple[tuple[str, Any], ...]] = Counter()
            for part in self.measured():
                for value, attributes in figures(part):
                    sums[tuple(attributes.items())] += value  # type: ignore[assignment]
            return [Observation(value, dict(attributes)) for attributes, value in sums.items()]

        return [observe]


def buckets(latencies: Latencies, bounds: tuple[float, ...], attributes: Attributes) -> Iterator[Measured]:
    """Yield what Prometheus makes of a histogram."""
    for bound in bounds:
        yield latencies.within(bound), {**attributes, "le": f"{bound:g}"}
    yield latencies.count, {**attributes, "le": "+Inf"}


def address(server: str, system: str) -> Attributes:
    """Return what the conventions say of a server that has this name. Several servers are one name."""
    host, colon, port = server.rpartition(":")
    if server.startswith("/") or "," in server or not colon or not port.isdigit():
        return {"db.system.name": system, "server.address": server}
    return {"db.system.name": system, "server.address": host.strip("[]"), "server.port": int(port)}
