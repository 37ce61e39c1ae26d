"""One cell of the matrix: the clients, the faults, and what the checks may expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .settings import Settings

#: Causes one fault in the world that it is given, and returns once it is over.
Injector = Callable[..., None]


@dataclass(frozen=True)
class Cell:
    """One named run."""

    name: str
    what: str
    #: The settings of each client process.
    clients: tuple[Settings, ...]
    #: The possible faults, and the longest time between two of them in seconds.
    faults: tuple[Injector, ...] = ()
    every: float = 0.7
    persistence: str = "none"
    options: tuple[str, ...] = ()
    #: The relay of each client, of those that make a server nearly Redis; empty for none.
    relays: tuple[str, ...] = ()
    #: How the proxy between clients and server cuts connections; empty for no proxy.
    cuts: tuple[str, ...] = ()
    #: The errors of the clients' wall clocks in seconds, in turn.
    skews: tuple[int, ...] = ()
    #: Whether the server's wall clock can be moved.
    moves_clock: bool = False
    #: What the clients' server is: ``one``, ``fakeredis``, or ``sentinels``, ``cluster`` or ``quorum``.
    servers: str = "one"
    #: Whether the links between a cluster's nodes, and to them, can be cut. Those of the others always can.
    linked: bool = False
    #: Whether each lock must cost exactly two calls.
    exact: bool = False
    #: Whether to trace the server, which takes time.
    traced: bool = True
    #: Whether waiters must be granted in the order of their tickets.
    ordered: bool = True
    #: Seconds within which a waiter with free names must be granted, in addition to the cost of faults.
    slack: float = 3.0
    #: The same where nothing is lost, whatever the ttl; 0 if something may be.
    within: float = 0.0
    #: Whether it is one of the short cells for the tests.
    quick: bool = False
    #: Prepares the world before the clients start.
    prepare: Injector | None = None
    #: Does something to the clients' links before they begin.
    ready: Injector | None = None
    #: Replaces the random work. Returns what went wrong.
    scenario: Callable[..., list[str]] | None = None

    @property
    def grant_within(self) -> float:
        """Seconds within which a waiter with free names must be granted.

        Without faults, this is the time to be woken, not a heartbeat. After a kill, it is a ttl and two heartbeats.
        After a stop, each of the process's waiters may be granted once, and hold for a ttl.
        """
        if self.within:
            return self.within
        settings = self.clients[0]
        if not (self.faults or self.cuts):
            return self.slack
        return settings.ttl * (1 + settings.workers) + 2 * settings.heartbeat + self.slack
