"""What a client has counted: what its commands came to, and how long they took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pinyon._native import LATENCY_BOUNDS, Latencies

__all__ = ["BOUNDS", "CommandMetrics", "Latencies", "ServerMetrics"]

#: The upper bounds of the buckets that latencies are counted in, in seconds. The last bucket has what took longer, too.
BOUNDS = LATENCY_BOUNDS


@dataclass(frozen=True)
class CommandMetrics:
    """What one command came to on one server, a key of many being a command of its own.

    Attributes:
        hits: an item was found; of ``delete``, ``touch``, ``incr`` and the like, and was changed.
        misses: there was none.
        stored: of commands that store: it was stored.
        not_stored: of the same: it was not, as an ``add`` where there is an item already.
        answered: all of these; of ``stats``, ``version`` and ``flush_all`` how many were answered.
        errors: how many requests failed, by the name of the exception in ``pinyon.errors``. Those that were tried again
            are among them, so what was raised may be fewer; all keys of a line of many are one request.
        retries: how many of those were tried again, there or on another server.
        latencies: how long some of the answers took, chosen by chance.
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

    @property
    def failed(self) -> int:
        """How many requests failed, whatever of."""
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
        )


@dataclass(frozen=True)
class ServerMetrics:
    """What a client and its views have counted of one server, in this process.

    Attributes:
        server: its name, as the client was given it or found it.
        is_up: whether it is in use; else it is marked down.
        is_gutter: whether it takes the keys of others only.
        connections: how many there are to it now; of a client of event loops, of all its loops.
        idle: how many of them nobody uses. Those of event loops are shared, and never idle.
        bytes_sent, bytes_received: of the protocol, before TLS adds its own.
        commands: those that were asked for, by name.
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
        """Return what is known of a command, also if it was never asked for."""
        return self.commands.get(name, CommandMetrics(name))
