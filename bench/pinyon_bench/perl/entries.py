"""Perl's contestants, and how they are run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ..locks.workloads import MUTEX, PAIR, group_of
from ..names import ANYEVENT, BARE, CALLBACKS, CORO, FAST, FUTURE, OURS, PERL
from ..step_rows import SIZE
from .rows import LINKS, LOCAL, LOOPS, PAIRS_GROUPS, PREFIX, SEMAPHORE, SHIM, STEP_GROUPS

STEPS = tuple(group.name for group in STEP_GROUPS)
LOOPS_GROUPS = tuple(PAIRS_GROUPS[LOOPS, link].name for link in LINKS)
SEMAPHORE_GROUPS = tuple(PAIRS_GROUPS[SEMAPHORE, link].name for link in LINKS)
NEAR_GROUPS = tuple(PAIRS_GROUPS[shape, LOCAL].name for shape in (LOOPS, SEMAPHORE))
LOCKS_SCRIPT = f"{OURS} script"
#: The floor has no coroutines, so none behind a semaphore.
FLOOR_GROUPS = (*STEPS, *LOOPS_GROUPS)
#: Client, module in `bench/perl/lib/PinyonBench/Client`, model, groups of rows.
CONTESTANTS = (
    (OURS, "Pinyon", PERL, (*STEPS, *LOOPS_GROUPS)),
    (SHIM, "PinyonFast", PERL, STEPS),
    (FAST, "CacheMemcachedFast", PERL, (*STEPS, *LOOPS_GROUPS)),
    ("Cache::Memcached", "CacheMemcached", PERL, (*STEPS, *LOOPS_GROUPS)),
    ("libmemcached", "Libmemcached", PERL, STEPS),
    (OURS, "Pinyon", CORO, (*LOOPS_GROUPS, *SEMAPHORE_GROUPS)),
    # It blocks all coroutines, so over the slow link its calls would come one after another.
    (FAST, "CacheMemcachedFast", CORO, NEAR_GROUPS),
    (OURS, "Pinyon", ANYEVENT, LOOPS_GROUPS),
    (CALLBACKS, "AnyEventMemcached", ANYEVENT, LOOPS_GROUPS),
    (OURS, "Pinyon", FUTURE, LOOPS_GROUPS),
    (LOCKS_SCRIPT, "PinyonLocks", PERL, (group_of(PAIR),)),
    (LOCKS_SCRIPT, "PinyonLocks", CORO, (group_of(PAIR), group_of(MUTEX))),
    (BARE, "BareSocket", PERL, (f"{PREFIX}:{SIZE.name}",)),
)
BUILD = "make setup installs Perl's modules and builds Pinyon's"
PROGRAM = Path(__file__).resolve().parents[2] / "perl" / "contestant.pl"
#: The modules in `bench/perl/lib/PinyonBench/Model`.
MODULES = {PERL: "Perl", CORO: "Coro", ANYEVENT: "AnyEvent", FUTURE: "Future"}


def command(module: str, model: str) -> list[str]:
    """Returns the command of a contestant. The environment variable PINYON_BENCH_PERL names another Perl."""
    return [*shlex.split(os.environ.get("PINYON_BENCH_PERL", "perl")), str(PROGRAM), module, MODULES[model]]
