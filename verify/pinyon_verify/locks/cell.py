"""One cell of the matrix: who works, what goes wrong, and what the checks may expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .settings import Settings

if TYPE_CHECKING:
    from .world import World

#: Does one thing to the world, and returns once it is over.
Injector = Callable[["World"], None]


@dataclass(frozen=True)
class Cell:
    """One named run."""

    name: str
    what: str
    #: One for each client process.
    clients: tuple[Settings, ...]
    #: Drawn from, again and again, with so many seconds between two at most.
    faults: tuple[Injector, ...] = ()
    every: float = 0.7
    persistence: str = "none"
    options: tuple[str, ...] = ()
    #: How the proxy between clients and server cuts connections; none: there is no proxy.
    cuts: tuple[str, ...] = ()
    #: Seconds by which the clients' wall clocks are wrong, in turn.
    skews: tuple[int, ...] = ()
    #: Whether the server's wall clock can be moved.
    moves_clock: bool = False
    #: Whether each lock must cost two calls, and no more.
    exact: bool = False
    #: Whether to trace the server; costs time.
    traced: bool = True
    #: Whether waiters are granted in the order of their tickets.
    ordered: bool = True
    #: Seconds after which a waiter whose names are free must be granted, on top of what faults may cost.
    slack: float = 3.0
    #: Whether it is one of the short ones that the tests run.
    quick: bool = False
    #: Done to the world before clients come.
    prepare: Injector | None = None
    #: Instead of random work: returns what went wrong.
    scenario: Callable[[World], list[str]] | None = None

    @property
    def grant_within(self) -> float:
        """Seconds after which a waiter whose names are free must be granted.

        Without faults, what it takes to be woken, and not a heartbeat.
        After a kill, a ttl and two heartbeats; after a stop each of the process's waiters may be granted once, and
        hold for a ttl.
        """
        settings = self.clients[0]
        if not (self.faults or self.cuts):
            return self.slack
        return settings.ttl * (1 + settings.workers) + 2 * settings.heartbeat + self.slack
