"""What a client has counted: what its commands came to, and how long they took."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pinyon import _native

#: The upper bounds of the buckets that latencies are counted in, in seconds. The last bucket has what took longer, too.
BOUNDS: tuple[float, ...] = tuple(bound / 1e9 for bound in _native.LATENCY_BOUNDS)

_STORES = frozenset(("set", "add", "replace", "append", "prepend", "cas"))
_OF_SERVERS = frozenset(("stats", "version", "flush_all"))


@dataclass(frozen=True, repr=False)
class Latencies:
    """How long answers took, from when the caller asked until the reply had come.

    One in thirty-two is timed, chosen by chance; those to a line of many keys together. So there are fewer of them than
    answers, and percentiles are the same.

    Attributes:
        counts: how many took as long as each of the buckets says whose upper bounds are ``BOUNDS``.
        total: seconds, of all of them together.
    """

    counts: tuple[int, ...] = (0,) * len(BOUNDS)
    total: float = 0.0

    @property
    def count(self) -> int:
        """How many answers were timed."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Seconds that one took on average; None where none was timed."""
        count = self.count
        return self.total / count if count else None

    def percentile(self, percent: float) -> float | None:
        """Return the seconds within which so many per cent of the answers came; None where none was timed.

        A bucket's bounds are a quarter apart, and within it answers are taken to be spread evenly.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile is 0 to 100, not {percent}")
        wanted = self.count * percent / 100
        below = 0
        for count, lower, upper in zip(self.counts, (0.0, *BOUNDS), BOUNDS):
            if count and below + count >= wanted:
                return lower + (upper - lower) * max(wanted - below, 0) / count
            below += count
        return None

    def within(self, seconds: float) -> int:
        """Return how many answers took no longer than this, to the nearest bucket below."""
        return sum(count for count, _ in itertools.takewhile(lambda one: one[1] <= seconds, zip(self.counts, BOUNDS)))

    def __repr__(self) -> str:
        if not self.count:
            return "<Latencies of nothing>"
        median, high, mean = self.percentile(50) or 0, self.percentile(99) or 0, self.mean or 0
        return f"<Latencies of {self.count}: mean {mean:.6f} s, p50 {median:.6f} s, p99 {high:.6f} s>"

    def __add__(self, other: Latencies) -> Latencies:
        return Latencies(tuple(map(int.__add__, self.counts, other.counts)), self.total + other.total)

    def __sub__(self, earlier: Latencies) -> Latencies:
        return Latencies(tuple(map(int.__sub__, self.counts, earlier.counts)), self.total - earlier.total)


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
    latencies: Latencies = Latencies()

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


def of_client(client: _native.Client) -> dict[str, ServerMetrics]:
    """Return what a client has counted, by server."""
    return {server: _of_server(server, *counts) for server, *counts in client.counted()}


def _of_server(server: str, *counts: Any) -> ServerMetrics:
    up, gutter, connections, idle, sent, received, commands = counts
    by_name = MappingProxyType({each[0]: _of_command(*each) for each in commands})
    return ServerMetrics(server, up, gutter, connections, idle, sent, received, by_name)


def _of_command(
    command: str,
    done: int,
    refused: int,
    failures: list[tuple[str, int]],
    retries: int,
    buckets: list[int],
    nanoseconds: int,
) -> CommandMetrics:
    errors: Counter[str] = Counter()
    for name, count in failures:
        errors[name] += count
    outcomes = (done, refused, 0, 0)
    if command in _STORES:
        outcomes = (0, 0, done, refused)
    elif command in _OF_SERVERS:
        outcomes = (0, 0, 0, 0)
    latencies = Latencies(tuple(buckets), nanoseconds / 1e9)
    return CommandMetrics(command, *outcomes, done + refused, MappingProxyType(dict(errors)), retries, latencies)
