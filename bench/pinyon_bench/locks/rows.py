"""The rows of locks: seed 004's two tests, uncontended pairs, and the hand-over between processes.

A cycle takes a lock of some names and releases it. Where n of 2n−1 names are locked, any two choices have a name in
common, so only one worker is inside at a time, and all depends on how a lock goes from one to the next.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from ..coroutines.models import ASYNCIO, BLOCKING, GEVENT
from ..protocol import LocksSpec, Workload

PREFIX = "locks"
PING: Workload = "ping"
PAIR: Workload = "pair"
PIPELINED: Workload = "pipelined"
MUTEX: Workload = "mutex"
SECTION: Workload = "section"
HANDOVER: Workload = "handover"

Link = Literal["near", "far"]
NEAR: Link = "near"
FAR: Link = "far"
#: As between machines of one data centre and the next; there the network takes longer than all programs together.
FAR_ONE_WAY_MILLISECONDS = 1

LOCK_MODELS = (BLOCKING, GEVENT, ASYNCIO)
KEYS = (1, 2, 3, 5, 10)
RUN_KEYS = (1, 10)
#: The commands that a cycle of the seed's second test sends besides those of the lock.
SECTION_COMMANDS = 4
MUTEX_CYCLES, MUTEX_WORKERS = 1000, 10
SECTION_WORKERS, SECTION_SECONDS, RUN_SECTION_SECONDS = 100, 5.0, 0.4
PROCESSES = 8
HANDOVER_SECONDS, RUN_HANDOVER_SECONDS = 3.0, 0.4
RUN_ROUNDS, RECORD_ROUNDS = 2, 3
#: Its cells are long: so many rounds for the keys of RUN_KEYS, and one for the others.
SECTION_ROUNDS = 2
NAME_BYTES = 16
NAMES_SEED = 4
TTL_SECONDS = 10_000


@dataclass(frozen=True)
class LocksRow:
    """One workload: `keys` of `of` names are locked at once, by so many workers.

    It runs `count` cycles, or for `seconds`; with neither as many cycles as fill a cell.
    """

    name: str
    workload: Workload
    keys: int
    of: int
    workers: int
    about: str
    models: tuple[str, ...]
    count: int
    seconds: float
    in_run: bool
    most_rounds: int
    unit: str = "cycles"
    link: Link = NEAR

    @property
    def group(self) -> str:
        """The group of the rows with the same workload over the same link."""
        return group_of(self.workload, self.link)

    def spec(self, server: str, count: int, seconds: float, workers: int | None = None, warmup: int = 0) -> LocksSpec:
        """Returns the row as the contestant gets it, with its own number of workers or another."""
        return {
            "name": self.name,
            "server": server,
            "workload": self.workload,
            "workers": self.workers if workers is None else workers,
            "keys": self.keys,
            "names": lock_names(self.of),
            "ttl": TTL_SECONDS,
            "warmup": warmup,
            "count": count,
            "seconds": seconds,
            "start": 0.0,
        }


def group_of(workload: str, link: Link = NEAR) -> str:
    """Returns the name of the group of rows of a workload."""
    return f"{PREFIX}:{workload}" if link == NEAR else f"{PREFIX}:{link}:{workload}"


def lock_names(count: int) -> list[str]:
    """Returns names as the seed makes them, random bytes and `.lck`, in hexadecimal and the same every time."""
    source = random.Random(NAMES_SEED)
    return [f"{source.getrandbits(8 * NAME_BYTES):0{2 * NAME_BYTES}x}.lck" for _ in range(count)]


def lock_rows(short: bool) -> list[LocksRow]:
    """Returns all rows of locks; `short` with the seconds of `run`, otherwise with those of `record`."""
    rounds = RUN_ROUNDS if short else RECORD_ROUNDS
    ping = _simple(PING, 0, "one command and its reply", (BLOCKING,), rounds, "round trips")
    handover = _handover(RUN_HANDOVER_SECONDS if short else HANDOVER_SECONDS, rounds)
    return [
        ping,
        *(_simple(PAIR, keys, f"lock and unlock {_names(keys)}, alone", LOCK_MODELS, rounds) for keys in KEYS),
        *(_simple(PIPELINED, keys, f"both of {_names(keys)} in one write", (BLOCKING,), rounds) for keys in KEYS),
        *(_mutex(keys, rounds) for keys in KEYS),
        *(_section(keys, RUN_SECTION_SECONDS if short else SECTION_SECONDS) for keys in KEYS),
        handover,
        _from_afar(ping),
        _from_afar(handover),
    ]


def _simple(
    workload: Workload, keys: int, about: str, models: tuple[str, ...], rounds: int, unit: str = "cycles"
) -> LocksRow:
    """A row of one worker that has the server to itself."""
    return LocksRow(
        name=f"{PREFIX}:{workload}:{keys}" if keys else f"{PREFIX}:{workload}",
        workload=workload,
        keys=keys,
        of=keys,
        workers=1,
        about=about,
        models=models,
        count=0,
        seconds=0.0,
        in_run=keys in (0, *RUN_KEYS),
        most_rounds=rounds,
        unit=unit,
    )


def _mutex(keys: int, rounds: int) -> LocksRow:
    of = 2 * keys - 1
    return LocksRow(
        name=f"{PREFIX}:{MUTEX}:{keys}/{of}",
        workload=MUTEX,
        keys=keys,
        of=of,
        workers=MUTEX_WORKERS,
        about=f"{MUTEX_CYCLES} cycles of {MUTEX_WORKERS} workers, {keys} of {_names(of)}",
        models=LOCK_MODELS,
        count=MUTEX_CYCLES,
        seconds=0.0,
        in_run=keys in RUN_KEYS,
        most_rounds=rounds,
    )


def _section(keys: int, seconds: float) -> LocksRow:
    of = 2 * keys - 1
    return LocksRow(
        name=f"{PREFIX}:{SECTION}:{keys}/{of}",
        workload=SECTION,
        keys=keys,
        of=of,
        workers=SECTION_WORKERS,
        about=f"{SECTION_WORKERS} workers sleep, lock {keys} of {_names(of)}, write, increase, read, delete, unlock",
        models=LOCK_MODELS,
        count=0,
        seconds=seconds,
        in_run=keys in RUN_KEYS,
        most_rounds=SECTION_ROUNDS if keys in RUN_KEYS else 1,
    )


def _handover(seconds: float, rounds: int) -> LocksRow:
    return LocksRow(
        name=f"{PREFIX}:{HANDOVER}:{PROCESSES}",
        workload=HANDOVER,
        keys=1,
        of=1,
        workers=PROCESSES,
        about=f"{PROCESSES} processes, one name; from a release to the next holder",
        models=(BLOCKING,),
        count=0,
        seconds=seconds,
        in_run=True,
        most_rounds=rounds,
    )


def _from_afar(row: LocksRow) -> LocksRow:
    """The same row over the far link."""
    about = f"{row.about}, over a link of {2 * FAR_ONE_WAY_MILLISECONDS} ms"
    return replace(row, name=row.name.replace(PREFIX, f"{PREFIX}:{FAR}", 1), about=about, link=FAR)


def _names(count: int) -> str:
    return f"{count} name{'s' * (count > 1)}"
