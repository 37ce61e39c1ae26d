"""The figures of locks. A part is the ``LockMetrics`` of one client, with the attributes of its servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pinyon._figures.figure import DURATIONS, Figure, address

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

    from pinyon._figures.figure import Attributes
    from pinyon.metrics import LockMetrics

    Counted: TypeAlias = tuple[LockMetrics, Attributes]

SYSTEM = "redis"

#: Seconds: waiting for locks may take long.
WAITS = (*DURATIONS, 30.0, 60.0)


def parts(locks: Any) -> list[Counted]:
    """Return the metrics of locks."""
    return [(locks.metrics(), address(locks.server, SYSTEM))]


def _one(name: str) -> Callable[[Any], Iterator[tuple[int, Attributes]]]:
    def of(counted: Counted) -> Iterator[tuple[int, Attributes]]:
        metrics, attributes = counted
        yield getattr(metrics, name), attributes

    return of


def _attempts(counted: Counted) -> Iterator[tuple[int, Attributes]]:
    metrics, attributes = counted
    for outcome, count in (("acquired", metrics.acquired), ("busy", metrics.busy), ("timeout", metrics.timeouts)):
        yield count, {**attributes, "pinyon.outcome": outcome}


def _lost(counted: Counted) -> Iterator[tuple[int, Attributes]]:
    metrics, attributes = counted
    return ((count, {**attributes, "pinyon.reason": reason}) for reason, count in metrics.lost.items())


def _errors(counted: Counted) -> Iterator[tuple[int, Attributes]]:
    metrics, attributes = counted
    return ((count, {**attributes, "error.type": f"pinyon.errors.{name}"}) for name, count in metrics.errors.items())


def _renewals(counted: Counted) -> Iterator[tuple[int, Attributes]]:
    metrics, attributes = counted
    yield metrics.renewals, {**attributes, "pinyon.outcome": "renewed"}
    yield metrics.renewals_refused, {**attributes, "pinyon.outcome": "refused"}


def _rates(counted: Counted) -> Iterator[tuple[Any, Attributes]]:
    metrics, attributes = counted
    yield metrics.rates_allowed, {**attributes, "pinyon.outcome": "allowed"}
    yield metrics.rates_refused, {**attributes, "pinyon.outcome": "refused"}


def _waits(counted: Counted) -> Iterator[tuple[Any, Attributes]]:
    metrics, attributes = counted
    yield metrics.waits, attributes


FIGURES = (
    Figure("pinyon.locks.attempts", "counter", "{attempt}", "Attempts to acquire a lock, by their outcome.", _attempts),
    Figure("pinyon.locks.queued", "counter", "{attempt}", "Attempts that had to wait for others.", _one("queued")),
    Figure("pinyon.locks.released", "counter", "{lock}", "Locks that were released while held.", _one("released")),
    Figure("pinyon.locks.lost", "counter", "{lock}", "Locks that were lost while held.", _lost),
    Figure("pinyon.locks.errors", "counter", "{operation}", "Operations that failed.", _errors),
    Figure("pinyon.locks.renewals", "counter", "{renewal}", "Renewals of held locks in the background.", _renewals),
    Figure("pinyon.locks.connects", "counter", "{connection}", "Connections that were made.", _one("connects")),
    Figure("pinyon.locks.disconnects", "counter", "{connection}", "Connections that broke.", _one("disconnects")),
    Figure("pinyon.locks.switches", "counter", "{switch}", "How often another server took over.", _one("switches")),
    Figure(
        "pinyon.locks.proceeded", "counter", "{lock}", "Holders that went on without their lock.", _one("proceeded")
    ),
    Figure("pinyon.locks.rates", "counter", "{check}", "Checks of rates, by their outcome.", _rates),
    Figure("pinyon.locks.acquire.duration", "histogram", "s", "How long acquiring took, with waiting.", _waits, WAITS),
)
