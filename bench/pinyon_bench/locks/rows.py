"""The rows of locks: seed 004's two tests, uncontended pairs, and the hand-over between processes.

A cycle acquires and releases a lock of some names. If n of 2n−1 names are locked, any two choices share a name. So
only one worker is inside at a time, and everything depends on the hand-over.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from ..declaration import Goals, Group, Row, goals_of
from ..goals import at_least_row, floor_share, processor_at_most
from ..names import ASYNCIO, BLOCKING, CORO, EVENTMACHINE, GEVENT, PERL, PERL_MODELS, RUBY, RUBY_MODELS
from ..protocol import LocksSpec, Workload
from .goals import (
    OURS_SCRIPT,
    at_most_round_trips,
    at_most_round_trips_a_pair,
    at_most_wake_ups,
    commands_per_cycle,
    grows_at_most,
    pipelined_share,
    round_trips_of_pure,
    server_time_at_most,
)
from .workloads import (
    APART,
    FAR,
    FAR_ONE_WAY_MILLISECONDS,
    HANDOVER,
    MUTEX,
    NEAR,
    PAIR,
    PERMITS,
    PING,
    PIPELINED,
    PREFIX,
    QUORUM,
    QUORUM_SERVERS,
    RATE,
    READ,
    READERS,
    SECTION,
    WRITERS,
    Link,
    group_of,
)

#: Of Python.
LOCK_MODELS = (BLOCKING, GEVENT, ASYNCIO)
#: Seed 004 ran its tests in coroutines.
SEED_MODELS = (GEVENT, ASYNCIO)
#: Where seed 004 ran them.
FIBERS = (EVENTMACHINE,)
FIBERS_AND_CORO = (*FIBERS, CORO)
KEYS = (1, 2, 3, 5, 10)
RUN_KEYS = (1, 10)
MUTEX_CYCLES, MUTEX_WORKERS = 1000, 10
#: Workers that have a name for a millisecond at a time.
WORKING = 16
SECTION_WORKERS, SECTION_SECONDS, RUN_SECTION_SECONDS = 100, 5.0, 0.4
PROCESSES = 8
HANDOVER_SECONDS, RUN_HANDOVER_SECONDS = 3.0, 0.4
RUN_ROUNDS, RECORD_ROUNDS = 2, 3
#: Its cells are long: this many rounds for the keys in RUN_KEYS, and one round for the others.
SECTION_ROUNDS = 2
NAME_BYTES = 16
NAMES_SEED, DRAWS_SEED = 4, 19
#: Where the number of cycles is not known, they are taken over and over.
DRAWS = 1000
#: Of a quorum, servers have a vote only when they have run for as long as a lock may last.
TTL_SECONDS, QUORUM_TTL_SECONDS = 10_000, 2


def _group(workload: Workload, title: str = "", link: Link = NEAR, *goals: Any) -> Group:
    return Group(
        group_of(workload, link),
        title and f"Locks: {title}",
        ", cycles per second",
        prefix=2 if link == NEAR else 3,
        labels="names locked",
        axis="keys",
        order=lambda row: row.keys,
        goals=goals,
    )


#: Groups without a title have no table of rates.
LOCK_GROUPS = (
    _group(PING),
    _group(PAIR, "one worker, no contention"),
    _group(PIPELINED, "lock and unlock in one write"),
    _group(
        MUTEX,
        "10 workers, each wants n of 2n−1 names (seed 004, test 1)",
        NEAR,
        grows_at_most(2.0, "1/1", "10/19", SEED_MODELS),
    ),
    _group(SECTION, "100 workers, each wants n of 2n−1 names (seed 004, test 2)"),
    _group(HANDOVER),
    _group(READ, "one worker reads a name"),
    _group(PERMITS, "one worker has one of a pool's permits"),
    _group(RATE, "one worker takes permits of a rate", NEAR),
    _group(WRITERS, f"{WORKING} workers have a name for a millisecond, one after another"),
    _group(READERS, f"{WORKING} workers have a name for a millisecond, together"),
    _group(QUORUM, "one worker, a majority of five independent servers"),
    _group(QUORUM, "a majority of five independent servers, on another core than the client", APART),
    _group(PING, link=FAR),
    _group(
        QUORUM, f"a majority of five independent servers, each over a link of {2 * FAR_ONE_WAY_MILLISECONDS} ms", FAR
    ),
    _group(HANDOVER, link=FAR),
)
CHEAPER_THAN_OTHER_QUORUMS = (
    processor_at_most("redlock-py", ours=OURS_SCRIPT),
    processor_at_most("pottery", ours=OURS_SCRIPT),
)
GOALS: Goals = {
    "locks:pair:1": (
        floor_share(0.8, ours=OURS_SCRIPT),
        floor_share(0.7, RUBY, OURS_SCRIPT),
        floor_share(0.75, PERL, OURS_SCRIPT),
        processor_at_most("redis-py", ours=OURS_SCRIPT),
        server_time_at_most(2.0),
    ),
    "locks:pair:*": (round_trips_of_pure(3),),
    "locks:rate:1": (commands_per_cycle(1), processor_at_most("limits", ours=OURS_SCRIPT)),
    f"locks:readers:{WORKING}": tuple(
        at_least_row(8.0, f"locks:writers:{WORKING}", models=(model,), base=model, ours=OURS_SCRIPT)
        for model in LOCK_MODELS
    ),
    # Of 46,800 pipelined pairs on the machine of seed 004: 15,000 and 12,360, 8,000 and 6,720 cycles per second.
    "locks:mutex:1/1": (pipelined_share(0.32, SEED_MODELS), pipelined_share(0.264, FIBERS_AND_CORO)),
    "locks:mutex:10/19": (pipelined_share(0.171, SEED_MODELS), pipelined_share(0.144, FIBERS_AND_CORO)),
    # Half more than the seed's 10,300 and 6,500 cycles in 5 seconds.
    "locks:section:1/1": (pipelined_share(0.066, (*SEED_MODELS, *FIBERS)),),
    "locks:section:10/19": (pipelined_share(0.042, (*SEED_MODELS, *FIBERS)),),
    "locks:quorum:1": CHEAPER_THAN_OTHER_QUORUMS,
    "locks:apart:quorum:1": CHEAPER_THAN_OTHER_QUORUMS,
    "locks:far:quorum:1": (at_most_round_trips_a_pair(3.0),),
    "locks:handover:*": (at_most_wake_ups(1.0),),
    "locks:*handover:*": (at_most_round_trips(1.5, 5.0),),
}


@dataclass(frozen=True)
class LocksRow(Row):
    """One workload: a number of workers, each locking `keys` of `of` names at once.

    It runs `count` cycles, or for `seconds`; without either, as many cycles as fill a cell.
    """

    operation: Workload = PAIR
    of: int = 0
    count: int = 0
    seconds: float = 0.0
    link: Link = NEAR

    @property
    def workload(self) -> Workload:
        """The kind of cycle."""
        return self.operation

    @property
    def workers(self) -> int:
        """The number of simultaneous workers."""
        return self.concurrency

    @property
    def together(self) -> int:
        """The number of workers that have the name at the same time."""
        return self.workers if self.workload == READERS else 1

    @property
    def ttl(self) -> int:
        """The seconds that its locks live."""
        return QUORUM_TTL_SECONDS if self.workload == QUORUM else TTL_SECONDS

    def spec(self, server: str, count: int, seconds: float, workers: int | None = None, warmup: int = 0) -> LocksSpec:
        """Returns the row for the contestant, with its own number of workers or another."""
        return {
            "name": self.name,
            "server": server,
            "workload": self.workload,
            "workers": self.workers if workers is None else workers,
            "keys": self.keys,
            "names": lock_names(self.of),
            "draws": draws(self.of, self.keys, max(count, warmup) or DRAWS),
            "delays": delays(self.workers if workers is None else workers),
            "ttl": self.ttl,
            "warmup": warmup,
            "count": count,
            "seconds": seconds,
            "start": 0.0,
            "check": False,
        }


def lock_names(count: int) -> list[str]:
    """Returns names like the seed's, random bytes and `.lck`, in hexadecimal, the same every time."""
    source = random.Random(NAMES_SEED)
    return [f"{source.getrandbits(8 * NAME_BYTES):0{2 * NAME_BYTES}x}.lck" for _ in range(count)]


def draws(of: int, keys: int, count: int) -> list[list[int]]:
    """Returns the places of each cycle's names, random but the same every time."""
    source = random.Random(DRAWS_SEED)
    return [source.sample(range(of), keys) for _ in range(count)]


def delays(workers: int) -> list[float]:
    """Returns the seconds that each worker of the second test sleeps before a cycle: 10 µs more than the one before."""
    found = [number * 1e-5 + 1e-3 for number in range(1, workers + 1)]
    random.Random(DRAWS_SEED).shuffle(found)
    return found


def lock_rows(short: bool) -> list[LocksRow]:
    """Returns all rows of locks; `short` with the seconds of `run`, otherwise with those of `record`."""
    rounds = RUN_ROUNDS if short else RECORD_ROUNDS
    section_seconds, handover_seconds = (
        (RUN_SECTION_SECONDS, RUN_HANDOVER_SECONDS) if short else (SECTION_SECONDS, HANDOVER_SECONDS)
    )
    alone = {"models": (BLOCKING,), "most_rounds": rounds}
    ping = _row(PING, "", 0, 0, 1, "one command and its reply", unit="round trips", **alone)
    pairs = [
        _row(PAIR, f":{keys}", keys, keys, 1, f"one worker locks and unlocks {_names(keys)}", most_rounds=rounds)
        for keys in KEYS
    ]
    pipelined = [
        _row(PIPELINED, f":{keys}", keys, keys, 1, f"lock and unlock {_names(keys)} in one write", **alone)
        for keys in KEYS
    ]
    about = f"{MUTEX_WORKERS} workers complete {MUTEX_CYCLES} cycles, each locks {{}}"
    mutexes = [_drawn(MUTEX, keys, MUTEX_WORKERS, about, count=MUTEX_CYCLES, most_rounds=rounds) for keys in KEYS]
    about = f"{SECTION_WORKERS} workers sleep, lock {{}}, write, increase, read, delete, unlock"
    sections = [
        _drawn(SECTION, keys, SECTION_WORKERS, about, seconds=section_seconds, most_rounds=most)
        for keys, most in ((keys, SECTION_ROUNDS if keys in RUN_KEYS else 1) for keys in KEYS)
    ]
    about = f"{PROCESSES} processes want one name: from a release to the next holder"
    handover = _row(HANDOVER, f":{PROCESSES}", 1, 1, PROCESSES, about, seconds=handover_seconds, **alone)
    with_one = {"models": LOCK_MODELS, "most_rounds": rounds}
    sharing = [
        _row(READ, ":1", 1, 1, 1, "one worker reads a name, alone", **with_one),
        _row(PERMITS, ":1", 1, 1, 1, "one worker has one of ten permits", **with_one),
        _row(RATE, ":1", 1, 1, 1, "one worker takes one permit of a rate after another", unit="checks", **with_one),
        _working(WRITERS, "one at a time", 10, rounds),
        _working(READERS, "together", 200, rounds),
    ]
    about = f"one worker locks and unlocks {_names(1)} on a majority of {QUORUM_SERVERS} servers"
    quorum = _row(QUORUM, ":1", 1, 1, 1, about, servers=QUORUM_SERVERS, models=LOCK_MODELS, most_rounds=rounds)
    afar = [_over(FAR, f"over a link of {2 * FAR_ONE_WAY_MILLISECONDS} ms", row) for row in (ping, handover, quorum)]
    apart = _over(APART, "with the servers on another core", quorum)
    return [ping, *pairs, *pipelined, *mutexes, *sections, handover, *sharing, quorum, apart, *afar]


def _working(workload: Workload, how: str, cycles: int, rounds: int) -> LocksRow:
    """A row of workers, each of which has the name so many times: often enough that their start takes no part."""
    about = f"{WORKING} workers have a name for 1 ms, {how}"
    count = cycles * WORKING
    return _row(workload, f":{WORKING}", 1, 1, WORKING, about, count=count, models=LOCK_MODELS, most_rounds=rounds)


def _row(workload: Workload, label: str, keys: int, of: int, workers: int, about: str, **more: Any) -> LocksRow:
    """A row near the server. `more`: differences from other rows."""
    name = f"{PREFIX}:{workload}{label}"
    return LocksRow(
        **{
            "name": name,
            "group": group_of(workload),
            "about": about,
            "unit": "cycles",
            "models": (*LOCK_MODELS, *RUBY_MODELS, *PERL_MODELS),
            "operation": workload,
            "keys": keys,
            "of": of,
            "concurrency": workers,
            "in_run": keys in (0, *RUN_KEYS),
            "goals": goals_of(name, GOALS),
            **more,
        }
    )


def _drawn(workload: Workload, keys: int, workers: int, about: str, **more: Any) -> LocksRow:
    """A row in which any two choices of names share one. `about` has a placeholder for the choice."""
    of = 2 * keys - 1
    return _row(workload, f":{keys}/{of}", keys, of, workers, about.format(f"{keys} of {_names(of)}"), **more)


def _over(link: Link, how: str, row: LocksRow) -> LocksRow:
    """The same row over another link."""
    return replace(
        row,
        name=(name := row.name.replace(PREFIX, f"{PREFIX}:{link}", 1)),
        group=group_of(row.workload, link),
        about=f"{row.about}, {how}",
        link=link,
        goals=goals_of(name, GOALS),
    )


def _names(count: int) -> str:
    return f"{count} name{'s' * (count > 1)}"
