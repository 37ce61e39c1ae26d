"""What the metrics of clients come to, under the names that OpenTelemetry and Prometheus show.

Names and attributes follow OpenTelemetry's semantic conventions. Other names begin with ``pinyon.``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon._alive import Alive
from pinyon._base_locks import BaseLocks
from pinyon._figures import caches, locks
from pinyon.client import BaseClient
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from pinyon._figures.figure import Attributes, Figure

__all__ = ["CACHES", "LOCKS", "Kind", "Observed", "kind_of", "sums"]


class Kind(NamedTuple):
    """A kind of clients.

    Attributes:
        figures: the figures of its metrics.
        parts: returns the metrics of one client, in the parts that ``Figure.of`` takes.
    """

    figures: tuple[Figure, ...]
    parts: Callable[[Any], Iterable[Any]]


CACHES = Kind(caches.FIGURES, caches.parts)
LOCKS = Kind(locks.FIGURES, locks.parts)


def kind_of(client: Any) -> Kind:
    """Return the kind of a client. Raises ``UsageError`` if it is none, or a migrating client."""
    if isinstance(client, BaseClient):
        return CACHES
    if isinstance(client, BaseLocks):
        return LOCKS
    raise UsageError(
        "a client or locks of pinyon, pinyon.gevent or pinyon.aio are wanted, "
        f"not {type(client).__qualname__}; of a migrating client its old and its new one, before they are made one"
    )


class Observed:
    """Clients of one kind whose metrics are added up, as long as they exist. Views of one client count once."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._clients: Alive[Any] = Alive()

    def add(self, client: Any) -> None:
        self._clients.add(client)

    def parts(self) -> list[Any]:
        """Return the metrics of all clients, as of now."""
        clients = {client._source: client for client in self._clients.all()}.values()
        return [part for client in clients for part in self._kind.parts(client)]


def sums(figure: Figure, parts: Iterable[Any]) -> Iterator[tuple[Any, Attributes]]:
    """Yield a figure's sums over parts, with the attributes of each."""
    found: dict[tuple[tuple[str, Any], ...], Any] = {}
    for part in parts:
        for value, attributes in figure.of(part):
            key = tuple(attributes.items())
            found[key] = found[key] + value if key in found else value
    return ((value, dict(attributes)) for attributes, value in found.items())
