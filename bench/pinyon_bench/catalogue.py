"""All rows, groups and targets of the benchmark."""

from __future__ import annotations

from dataclasses import replace

from .c.rows import C_GROUPS, c_rows
from .coroutines.rows import PAIRS_GROUPS, THREADS, THREADS_APART, pairs_rows
from .declaration import Group, Row
from .goals import memory_grows_at_most
from .hot.rows import HOT, hot_rows
from .instructions.goals import instructions_at_most
from .locks.goals import exactly_commands
from .locks.rows import LOCK_GROUPS, lock_rows
from .perl.rows import PERL_GROUPS, perl_rows
from .results import Document, Target
from .ruby.rows import RUBY_GROUPS, ruby_rows
from .step_rows import PLACEMENT, STEP_GROUPS, step_rows

GROUPS: dict[str, Group] = {
    group.name: group
    for group in (*STEP_GROUPS, *PAIRS_GROUPS, HOT, *RUBY_GROUPS, *PERL_GROUPS, *C_GROUPS, *LOCK_GROUPS)
}
#: Of no row or group.
GOALS = (memory_grows_at_most(256), exactly_commands(2.0), instructions_at_most)


def all_rows(short: bool) -> list[Row]:
    """Returns every row in the order in which rows are run and shown; `short` with the counts of `run`."""
    languages = [*ruby_rows(short), *perl_rows(short), *c_rows(short)]
    return [*step_rows(), *pairs_rows(short), *hot_rows(short), *languages, *lock_rows(short)]


def placement_rows(placement: str) -> list[Row]:
    """Returns the few rows that `record` also measures in another placement, which is part of their names."""
    chosen = [row for row in all_rows(False) if "placement" in row.also]
    groups = [THREADS_APART if row.group == THREADS.name else PLACEMENT for row in chosen]
    return [
        replace(row, name=f"{row.name} {placement}", group=group.name, goals=()) for row, group in zip(chosen, groups)
    ]


def targets(document: Document) -> list[Target]:
    """Returns every target that the document has the figures for, or as they were judged when it had."""
    if document.verdicts:
        return document.verdicts
    measured = {row.name for row in document.rows}
    found = [goal(document, row.name) for row in all_rows(False) if row.name in measured for goal in row.goals]
    found += [goal(document, group.name) for group in GROUPS.values() for goal in group.goals]
    found += [goal(document, "") for goal in GOALS]
    return [target for each in found for target in each]
