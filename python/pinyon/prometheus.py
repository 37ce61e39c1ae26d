"""Prometheus: the metrics of clients and of locks, for the package ``prometheus_client``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
except ImportError as _missing:
    raise ImportError("pinyon.prometheus needs its client: pip install prometheus-client") from _missing

from pinyon._figures import CACHES, LOCKS, Observed, kind_of, sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from pinyon._figures.figure import Figure

__all__ = ["Collector"]

#: What Prometheus appends to a name for its unit.
_UNITS = {"s": "_seconds", "By": "_bytes"}


class Collector:
    """Collects the metrics of clients and of locks, whenever Prometheus asks for them.

    They are the figures of ``pinyon.opentelemetry``, with underscores for points. Reading them costs operations
    nothing. The metrics of several clients are added up, and a client that is gone drops out. Views are included, and
    count once. In a process that forks, make a collector in each child.

    Args:
        *clients: clients or locks of any concurrency model. ``add`` adds more.
        registry: where the collector registers itself, such as ``prometheus_client.REGISTRY``. None: nowhere.

    Raises:
        UsageError: one of them is neither a client nor locks, or is a migrating client.
    """

    def __init__(self, *clients: Any, registry: CollectorRegistry | None = None) -> None:
        self._observed = {kind: Observed(kind) for kind in (CACHES, LOCKS)}
        self.add(*clients)
        if registry is not None:
            registry.register(self)

    def add(self, *clients: Any) -> None:
        """Collect the metrics of these clients or locks, too. Raises ``UsageError`` as the class does."""
        for kind, client in [(kind_of(client), client) for client in clients]:
            self._observed[kind].add(client)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all clients, as of now. Prometheus' client calls this."""
        for kind, observed in self._observed.items():
            parts = observed.parts()
            if parts:
                yield from (_family(figure, list(sums(figure, parts))) for figure in kind.figures)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are known without collecting."""
        return ()


def _family(figure: Figure, values: list[tuple[Any, dict[str, Any]]]) -> Any:
    """Return one figure as Prometheus shows it."""
    name = figure.name.replace(".", "_") + _UNITS.get(figure.unit, "")
    names = list(dict.fromkeys(attribute for _, attributes in values for attribute in attributes))
    labels = [attribute.replace(".", "_") for attribute in names]
    kinds: dict[str, Any] = {
        "counter": CounterMetricFamily,
        "level": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    family = kinds[figure.kind](name, figure.text, labels=labels)
    for value, attributes in values:
        texts = [str(attributes.get(attribute, "")) for attribute in names]
        if figure.kind == "histogram":
            buckets = [(f"{bound:g}", value.within(bound)) for bound in figure.bounds]
            family.add_metric(texts, [*buckets, ("+Inf", value.count)], value.total)
        else:
            family.add_metric(texts, value)
    return family
