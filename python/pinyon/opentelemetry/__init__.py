"""OpenTelemetry: the metrics of clients and of locks, and a span for each operation if you want them.

Only the API package is needed: ``pip install opentelemetry-api``. Names follow the semantic conventions for
database clients. Other names begin with ``pinyon.``. No key, value, name of a lock or error text is reported.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypeVar

try:
    from opentelemetry import metrics, trace
except ImportError as _missing:
    raise ImportError("pinyon.opentelemetry needs its API: pip install opentelemetry-api") from _missing

from pinyon import _native
from pinyon._figures import LOCKS, kind_of
from pinyon.opentelemetry import _caches, _locks
from pinyon.opentelemetry._observing import instruments
from pinyon.opentelemetry._spans import Tracing

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import TracerProvider

    from pinyon._figures import Kind, Observed

__all__ = ["instrument", "traced"]

_Client = TypeVar("_Client")


def instrument(client: Any, *, meter_provider: MeterProvider | None = None) -> None:
    """Report the metrics of a client or of locks, as long as it exists.

    The metrics are read when they are collected, which costs operations nothing. Call this in each process that
    collects metrics, also after a fork.

    Args:
        client: a client or locks of any concurrency model. Its views are included, and count once. The metrics of
            several clients are added up.
        meter_provider: by default the global one.

    Raises:
        UsageError: this is neither a client nor locks, or a migrating client.
    """
    kind = kind_of(client)
    meter = metrics.get_meter("pinyon", _native.__version__, meter_provider)
    observed = _observed.setdefault(meter, {})
    if kind not in observed:
        observed[kind] = instruments(meter, kind)
    observed[kind].add(client)


def traced(
    client: _Client, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> _Client:
    """Return a view of a client or of locks. Each of its operations makes a span, and counts in
    ``db.client.operation.duration``.

    The view shares everything else with the client, which itself still makes no spans. A span of a cache costs more
    than the operation, so use it only where you need it. A batch (``quiet``) makes no spans. Of a lock that is held
    there is a span, too, and ``pinyon.locks.hold.duration`` has its time.

    Args:
        client: a client or locks of any concurrency model.
        tracer_provider: by default the global one.
        meter_provider: by default the global one.

    Returns:
        The view.

    Raises:
        UsageError: this is neither a client nor locks, or a migrating client.
    """
    view = _locks.view if kind_of(client) is LOCKS else _caches.view
    tracing = Tracing(
        trace.get_tracer("pinyon", _native.__version__, tracer_provider),
        metrics.get_meter("pinyon", _native.__version__, meter_provider),
    )
    made: _Client = view(client, tracing)
    return made


_observed: weakref.WeakKeyDictionary[Meter, dict[Kind, Observed]] = weakref.WeakKeyDictionary()
