"""What servers say of themselves, asked again and again."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pinyon.client import Client
from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Servers that are asked at the same time at most.
_AT_ONCE = 32

#: What is added up over servers, by its name here and memcached's.
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
#: Those that only grow, and are told by the second.
GROWING = ("gets", "sets", "evictions", "bytes_in", "bytes_out", "hits", "misses")


@dataclass(frozen=True)
class Sample:
    """What a server said, or why it said nothing.

    Attributes:
        at: the monotonic time when it was asked, in seconds.
        figures: by the names of ``FIGURES``.
        rates: how much each of ``GROWING`` grew in a second, since the sample before or else since the server started.
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
        """The share of gets that found something, as lately as ``rates`` are."""
        hits, misses = self.rates.get("hits", 0.0), self.rates.get("misses", 0.0)
        return hits / (hits + misses) if hits + misses else None


class Servers:
    """Some servers, each with a client of its own: one that is down is no trouble to the others."""

    def __init__(self, servers: Sequence[str] | None, **settings: Any) -> None:
        names = Client(list(servers) if servers else None).metrics()
        self._clients = [Client([name], failover=False, max_connections=1, **settings) for name in names]
        self._pool = ThreadPoolExecutor(min(len(self._clients), _AT_ONCE), "pinyon-stats")
        self._before: dict[str, Sample] = {}

    def sample(self) -> list[Sample]:
        """Ask all of them at once."""
        samples = list(self._pool.map(self._sample, self._clients))
        self._before = {sample.server: sample for sample in samples if not sample.error}
        return samples

    def close(self) -> None:
        """Ask no more."""
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
    """Return what all servers that answered come to together."""
    answered = [sample for sample in samples if not sample.error]
    return Sample(
        "total",
        max((sample.at for sample in answered), default=0.0),
        figures={name: sum(sample.figures[name] for sample in answered) for name in FIGURES},
        rates={name: sum(sample.rates[name] for sample in answered) for name in GROWING},
    )


def _rates(figures: dict[str, int], uptime: int, at: float, before: Sample | None) -> dict[str, float]:
    """How fast figures grow; since the server started, where nothing is known from before, or it has begun anew."""
    if before is None or any(figures[name] < before.figures[name] for name in GROWING):
        return {name: figures[name] / max(uptime, 1) for name in GROWING}
    seconds = max(at - before.at, 1e-3)
    return {name: (figures[name] - before.figures[name]) / seconds for name in GROWING}


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
