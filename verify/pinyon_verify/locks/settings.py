"""The settings of a client process: how it works, and where it records what it does."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

NAMESPACE = "verify"


@dataclass(frozen=True)
class Settings:
    """One client process. Times are in seconds."""

    seed: int = 1
    url: str = ""
    #: The clients' login: ``user:password@``.
    login: str = ""
    register: str = ""
    folder: str = ""
    #: ``blocking``, ``gevent``, ``asyncio``, ``ruby-threads``, ``ruby-async``, ``perl-threads``, ``perl-coro``, or
    #: ``perl-alarm``, which has one worker.
    model: str = "blocking"
    workers: int = 3
    #: Whether each worker has its own connection, and thus its own place in the server's queue.
    apart: bool = False
    handler: str = "script"
    fairness: str = "fifo"
    ttl: float = 0.4
    heartbeat: float = 0.2
    command_timeout: float = 2.0
    #: The longest time that a worker waits for its names.
    patience: float = 10.0
    names: int = 7
    #: How many hash tags the names have, all names with each; 0 for names without tags.
    tags: int = 0
    #: The least and the most names at once.
    fewest: int = 1
    most: int = 5
    #: Whether an attempt that nobody cancels must not fail before its time is over.
    waits_out: bool = False
    #: How often a worker stops waiting on purpose, and the most seconds before it does.
    cancels: float = 0.0
    cancel_within: float = 0.03
    #: Whether the servers of a quorum vote as soon as they run, since none loses its data.
    trusted: bool = False
    #: Whether coroutines are cancelled after 1, 2, 3, … turns of their loop.
    stepwise: bool = False
    #: How often a worker asks once without waiting.
    tries: float = 0.0
    #: How often a worker stays longer than its ttl, and how long it stays otherwise.
    long_stays: float = 0.01
    stay: float = 0.004
    #: How often a worker lets its lock expire.
    unrenewed: float = 0.0
    #: How often a worker notifies another one that waits on a condition, and waits on one itself.
    conditions: float = 0.0
    #: How often a worker takes more names inside its lock.
    nested: float = 0.0
    #: How often an attempt reads all its names. Half as often, it reads some.
    reads: float = 0.0
    #: How often an attempt wants permits, too, or nothing else; how many pools there are, and the limit of each.
    permits: float = 0.0
    pools: int = 2
    limit: int = 3
    #: Whether each attempt also writes a name that only its worker has: journals tell locks apart by what they write.
    marked: bool = False
    #: How often a lock that only writes is kept for a least time, and how often it is handed over.
    at_least: float = 0.0
    hand_overs: float = 0.0
    #: How often a holder upgrades names that it reads, or downgrades names that it writes.
    changes: float = 0.0
    #: How often a worker asks a rate, and the numbers of that rate.
    rates: float = 0.0
    rate_limit: int = 40
    rate_per: float = 1.0
    rate_burst: int = 10
    #: Whether each worker is a candidate for the leadership of a name, and acquires no locks. It leads for as long as another one
    #: stays.
    leads: bool = False
    #: What is broken on purpose in its leaders.
    wrong: str = ""
    #: How often a worker forks inside its critical section.
    forks: float = 0.0
    #: The longest pause of a worker between two locks.
    rest: float = 0.002

    def dump(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(path: Path) -> Settings:
        return Settings(**json.loads(path.read_text()))

    def but(self, **changes: object) -> Settings:
        return replace(self, **changes)  # type: ignore[arg-type]

    def each(self, *models: str, **changes: object) -> tuple[Settings, ...]:
        """Return one client for each of these concurrency models."""
        return tuple(self.but(model=model, **changes) for model in models)


MODELS = ("blocking", "gevent", "asyncio")
RUBY = ("ruby-threads", "ruby-async")
PERL = ("perl-threads", "perl-coro")
#: Nothing expires and no waiter polls: without a wake-up, it stays asleep.
CALM = Settings(ttl=60.0, heartbeat=60.0, long_stays=0.0, patience=30.0)
#: Locks that expire often, and waiters that often give up.
BUSY = Settings(cancels=0.15, tries=0.05, unrenewed=0.05, stay=0.002, long_stays=0.005)
#: What locks have beside names that they write.
SHARING = {"reads": 0.4, "permits": 0.3}
#: All of it.
MANIFOLD = {**SHARING, "hand_overs": 0.1, "at_least": 0.1, "rates": 0.3}


def each_model(settings: Settings) -> tuple[Settings, ...]:
    """Return one client of each model of each language whose workers share a process."""
    return settings.each(*MODELS, *RUBY, *PERL)


def everybody(settings: Settings) -> tuple[Settings, ...]:
    """Return one client of each model of each language; the one that a handler cancels is alone."""
    return (*each_model(settings), settings.but(model="perl-alarm", workers=1))


def some(settings: Settings) -> tuple[Settings, ...]:
    """Return one client of each language, and one whose workers are coroutines."""
    return settings.each("blocking", "asyncio", "ruby-threads", "perl-threads")
