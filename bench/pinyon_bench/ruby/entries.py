"""Ruby's contestants, and how they are run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ..locks.workloads import MUTEX, PAIR, SECTION, group_of
from ..names import ASYNC, DALLI, EVENTMACHINE, OURS, RUBY
from .rows import FIBERS_GROUPS, RUBY_GROUPS, STEP_GROUPS, THREADS_GROUP

CALLS_GROUPS = (*(group.name for group in STEP_GROUPS), THREADS_GROUP.name)
LOCKS_GROUPS = tuple(group_of(workload) for workload in (PAIR, MUTEX, SECTION))
#: The floor has no threads.
FLOOR_GROUPS = tuple(group.name for group in RUBY_GROUPS if group != THREADS_GROUP)
#: Client, file in `bench/ruby/clients`, model, groups of rows.
CONTESTANTS = (
    *(
        (client, file, model, groups)
        for model, groups in (
            (RUBY, CALLS_GROUPS),
            *((model, (group.name,)) for model, group in FIBERS_GROUPS.items()),
        )
        for client, file in ((OURS, "pinyon"), (DALLI, "dalli"))
    ),
    *((f"{OURS} script", "pinyon_locks", model, LOCKS_GROUPS) for model in (RUBY, EVENTMACHINE, ASYNC)),
)
BUILD = "make setup installs Ruby and the gem"
PROGRAM = Path(__file__).resolve().parents[2] / "ruby" / "contestant.rb"


def command(file: str, model: str) -> list[str]:
    """Returns the command of a contestant. The environment variable PINYON_BENCH_RUBY names another Ruby."""
    return [*shlex.split(os.environ.get("PINYON_BENCH_RUBY", "ruby")), str(PROGRAM), file, model]
