"""Samples of the servers' statistics."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pinyon.client import Client
from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The largest number of servers to ask at the same time.
_AT_ONCE = 32

#: The figures that can be added up over servers: the name here, and memcached's.
FIGURES = {
    "hits": "get_hits",
    "misses": "get_misses",
    "gets": "cmd_get",
    "sets": "cmd_set",
    "evictions": "evictions",
    "memory": "bytes",
    "memory_limit": "limit_maxbytes",
    "items": "curr_items",
    "connections": "curr_connections",
    "bytes_in": "bytes_read",
    "bytes_out": "bytes_written",
}
#: The figures that only grow. They are shown per second.
GROWING = ("gets", "sets", "evictions", "bytes_in", "bytes_out", "hits", "misses")


@dataclass(frozen=True)
class Sample:
    """A server's statistics, or the reason why there are none.

    Attributes:
        at: the monotonic time of the request, in seconds.
        figures: the values by the names of ``FIGURES``.
        rates: how much each of ``GROWING`` grew per second, since the previous sample or the server's start.
    """

    server: str
    at: float
    version: str = ""
    uptime: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def hit_rate(self) -> float | None:
        """The share of gets that hit, over the same time as ``rates``."""
        hits, misses = self.rates.get("hits", 0.0), self.rates.get("misses", 0.0)
        return hits / (hits + misses) if hits + misses else None


class Servers:
    """Several servers, each with its own client, so that a server that is down does not affect the others."""

    def __init__(self, servers: Sequence[str] | None, **settings: Any) -> None:
        names = Client(list(servers) if servers else None).metrics()
        self._clients = [Client([name], failover=False, max_connections=1, **settings) for name in names]
        self._pool = ThreadPoolExecutor(min(len(self._clients), _AT_ONCE), "pinyon-stats")
        self._before: dict[str, Sample] = {}

    def sample(self) -> list[Sample]:
        """Ask all servers at the same time."""
        samples = list(self._pool.map(self._sample, self._clients))
        self._before = {sample.server: sample for sample in samples if not sample.error}
        return samples

    def close(self) -> None:
        """Close all clients."""
        self._pool.shutdown()
        for client in self._clients:
            client.close()

    def _sample(self, client: Client) -> Sample:
        (server,) = client.metrics()
        at = time.monotonic()
        try:
            said = client.stats()[server]
        except Error as error:
            return Sample(server, at, error=str(error).removeprefix(f"{server}: stats: "))
        figures = {name: _number(said.get(theirs)) for name, theirs in FIGURES.items()}
        uptime = _number(said.get("uptime"))
        rates = _rates(figures, uptime, at, self._before.get(server))
        return Sample(server, at, said.get("version", ""), uptime, figures, rates)


def total(samples: Iterable[Sample]) -> Sample:
    """Return the sums over all servers that answered."""
    answered = [sample for sample in samples if not sample.error]
    return Sample(
        "total",
        max((sample.at for sample in answered), default=0.0),
        figures={name: sum(sample.figures[name] for sample in answered) for name in FIGURES},
        rates={name: sum(sample.rates[name] for sample in answered) for name in GROWING},
    )


def _rates(figures: dict[str, int], uptime: int, at: float, before: Sample | None) -> dict[str, float]:
    """Return the growth of figures per second: since the previous sample, or since the server's start."""
    if before is None or any(figures[name] < before.figures[name] for name in GROWING):
        return {name: figures[name] / max(uptime, 1) for name in GROWING}
    seconds = max(at - before.at, 1e-3)
    return {name: (figures[name] - before.figures[name]) / seconds for name in GROWING}


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
