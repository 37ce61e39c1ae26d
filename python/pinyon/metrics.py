"""Metrics: how often each command or lock succeeded or failed, and how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pinyon._native import LATENCY_BOUNDS, Latencies

__all__ = ["BOUNDS", "CommandMetrics", "Latencies", "LockMetrics", "NearMetrics", "ServerMetrics"]

#: The upper bounds of the latency buckets, in seconds. The last bucket also counts everything that took longer.
BOUNDS = LATENCY_BOUNDS


class _Picklable:
    """The base of metrics, which a worker may send to its parent. Their mappings cannot be changed, nor be pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, MappingProxyType(value) if isinstance(value, dict) else value)


@dataclass(frozen=True)
class CommandMetrics(_Picklable):
    """The results of one command on one server. Each key of a command for many keys counts by itself.

    Attributes:
        command: the command's name.
        hits: how often there was an item; for ``delete``, ``touch``, ``incr`` and the like, how often it was changed.
        misses: how often there was none.
        stored: how often a value was stored.
        not_stored: how often a value was not stored, such as by an ``add`` when there was an item already.
        answered: the sum of these; for ``stats``, ``version`` and ``flush_all``, the number of answers.
        errors: the number of failed requests, by the name of the exception in ``pinyon.errors``. This includes requests
            that were retried, so fewer errors may have been raised. All keys that were sent in one line are one
            request.
        retries: how many failed requests were retried, on the same server or another one.
        latencies: how long answers took, of a random sample.
        kept: for ``lease``, how often ``get_or_set`` kept the old value, because a new one could not be made.
    """

    command: str
    hits: int = 0
    misses: int = 0
    stored: int = 0
    not_stored: int = 0
    answered: int = 0
    errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    retries: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    kept: int = 0

    @property
    def failed(self) -> int:
        """How many requests failed, for any reason."""
        return sum(self.errors.values())

    def __add__(self, other: CommandMetrics) -> CommandMetrics:
        return CommandMetrics(
            self.command,
            self.hits + other.hits,
            self.misses + other.misses,
            self.stored + other.stored,
            self.not_stored + other.not_stored,
            self.answered + other.answered,
            MappingProxyType(dict(Counter(self.errors) + Counter(other.errors))),
            self.retries + other.retries,
            self.latencies + other.latencies,
            self.kept + other.kept,
        )


@dataclass(frozen=True)
class ServerMetrics(_Picklable):
    """What a client and its views have counted for one server, in this process.

    Attributes:
        server: the server's name, as it was given or discovered.
        is_up: whether the server is in use. Otherwise it is marked down.
        is_gutter: whether the server only takes the keys of servers that are down.
        connections: how many connections to it are open now, in all event loops together.
        idle: how many of them are not in use. Event loops share their connections, which are never idle.
        bytes_sent: bytes of the protocol, without those that TLS adds.
        bytes_received: bytes of the protocol, without those that TLS adds.
        commands: the metrics of each command that was used, by name.
    """

    server: str
    is_up: bool
    is_gutter: bool
    connections: int
    idle: int
    bytes_sent: int
    bytes_received: int
    commands: Mapping[str, CommandMetrics]

    def command(self, name: str) -> CommandMetrics:
        """Return the metrics of a command, with zeros if it was never used."""
        return self.commands.get(name, CommandMetrics(name))


@dataclass(frozen=True)
class NearMetrics:
    """What became of the hot keys that a client and its views keep in memory (``near``), in this process.

    Attributes:
        hits: how many values were returned without asking a server.
        revalidations: how many values were no longer fresh, and were read from their server again.
        fills: how many values were read and kept, with revalidations.
        evictions: how many values made room for others.
        bytes: the memory in use now: keys, values, and what it takes to keep them.
    """

    hits: int = 0
    revalidations: int = 0
    fills: int = 0
    evictions: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class LockMetrics(_Picklable):
    """What happened to the locks of a client, in this process.

    Attributes:
        acquired: how many locks were acquired. Each acquisition of a reentrant lock counts.
        queued: how many attempts had to wait because others held a name. On a quorum, each server counts.
        busy: how many attempts without waiting found a name taken.
        released: how many locks their holders released while they were held.
        lost: how many locks were lost, by reason: ``"expired"``, before a renewal was confirmed; ``"gone"``, deleted or
            expired on the server; ``"forced"``, released by force.
        errors: how many operations failed, by the name of the exception in ``pinyon.errors``. ``LockTimeout`` counts
            locks that were not acquired in time.
        renewals: how often a held lock was renewed in the background.
        renewals_refused: how often the server refused to renew one.
        connects: how many connections were made to servers, not counting Sentinels.
        disconnects: how many of them broke.
        switches: how often another server took over as the primary.
        proceeded: how often a holder went on without its lock because the servers were away (``on_failure``).
        rates_allowed: how many checks of rates took their permits. Each counts once, for however many permits.
        rates_refused: how many did not, because it was too early.
        waits: how long it took to acquire the locks that were acquired, with waiting. All are timed.
    """

    acquired: int = 0
    queued: int = 0
    busy: int = 0
    released: int = 0
    lost: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    renewals: int = 0
    renewals_refused: int = 0
    connects: int = 0
    disconnects: int = 0
    switches: int = 0
    proceeded: int = 0
    rates_allowed: int = 0
    rates_refused: int = 0
    waits: Latencies = field(default_factory=Latencies)

    @property
    def timeouts(self) -> int:
        """How many locks could not be acquired in time."""
        return self.errors.get("LockTimeout", 0)
