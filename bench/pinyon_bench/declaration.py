"""Rows, groups of rows and targets: each is declared once.

The runner, the command line, tables, targets, plots and PERFORMANCE.md read the declarations, or the part of them that a
result document keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, Literal

from .names import BLOCKING
from .results import Document, RowInfo, Target

#: Additional measurements of a row: the client's system calls and memory, and the row in other placements.
Also = Literal["system calls", "memory", "placement"]
#: What the plots of a group have on their horizontal axis.
Axis = Literal["concurrency", "size", "keys", ""]


#: Yields the targets for the row or group with this name, as far as a document has the figures.
Goal = Callable[[Document, str], Iterator[Target]]
#: Goals by row name, which may be a pattern.
Goals = dict[str, tuple[Goal, ...]]


@dataclass(frozen=True)
class Group:
    """Rows that are shown together, and how; without a title they have no tables.

    `counted` says what their rates count. A row's label is its name without the first `prefix` parts; `labels` heads the
    labels.
    """

    name: str
    title: str
    counted: str = ", operations per second"
    prefix: int = 0
    labels: str = "row"
    axis: Axis = ""
    note: str = ""
    order: Callable[[RowInfo], Any] | None = None
    goals: tuple[Goal, ...] = ()

    def rows(self, document: Document) -> list[RowInfo]:
        """Returns the group's rows in display order."""
        rows = document.rows_of(self.name)
        return sorted(rows, key=self.order) if self.order else rows

    def label(self, row: RowInfo) -> str:
        """Returns the row's label within its group."""
        return " ".join(row.name.split(":")[self.prefix :]) if self.prefix else row.name


@dataclass(frozen=True)
class Row:
    """One workload: what it does, who takes part, what its rate counts, and its targets.

    `operation`, `size` (of a value, in bytes), `concurrency`, `keys` and `servers` are its places on the axes of plots;
    they are 0 or empty where a row has none. `run` includes the row by default when `in_run` is true.
    """

    name: str
    group: str
    about: str
    models: tuple[str, ...] = (BLOCKING,)
    unit: str = "operations"
    operation: str = ""
    size: int = 0
    concurrency: int = 0
    keys: int = 0
    servers: int = 1
    in_run: bool = True
    most_rounds: int | None = None
    also: tuple[Also, ...] = ()
    goals: tuple[Goal, ...] = field(default=(), compare=False)

    def info(self) -> RowInfo:
        """Returns the row as a result document keeps it."""
        places = (self.operation, self.size, self.concurrency, self.keys, self.servers)
        return RowInfo(self.name, self.group, self.unit, self.about, *places)

    def rounds(self, rounds: int) -> int:
        """Returns in how many of these rounds it is timed: all, unless the row is slow and steady."""
        return min(rounds, self.most_rounds or rounds)

    def is_called(self, name: str) -> bool:
        """Returns whether a name, a pattern or a group's name selects this row; `locks` selects several groups."""
        return name in (self.group, self.group.partition(":")[0]) or fnmatch(self.name, name)


def goals_of(name: str, goals: Goals) -> tuple[Goal, ...]:
    """Returns all goals of a row."""
    return tuple(goal for pattern, found in goals.items() if fnmatch(name, pattern) for goal in found)
