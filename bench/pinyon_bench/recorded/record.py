"""What is kept of a long run: its tables, and when and where it was measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import contents, grids
from ..grids import Grid, Lines
from ..results import Document

CONTESTANTS, ROWS, TARGETS = "Contestants", "Rows", "Targets"
#: What the table of targets says of one that was not reached.
MISSED = "missed"


@dataclass(frozen=True)
class Record:
    """The tables of a run in the order in which they are shown, and its circumstances in words."""

    machine: str
    versions: str
    created: str
    command: str
    placement: str
    rounds: int
    grids: list[Grid] = field(default_factory=list)
    layouts: list[Lines] = field(default_factory=list)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def grid(self, title: str) -> Grid:
        """Returns the table of a title; an empty one when the run has none."""
        return next((grid for grid in self.grids if grid.title == title), Grid(title))


def record_of(document: Document) -> Record:
    """Returns the record of a result document."""
    machine = document.machine
    found = [grids.contestants(document), grids.target_grid(document), rows_grid(document), *contents.tables(document)]
    return Record(
        f"{machine.cpu}, {machine.cores} cores, {machine.kernel}, {machine.system}",
        ", ".join(f"{name} {version}" for name, version in document.versions.items()),
        document.created,
        document.command,
        document.placement,
        document.rounds,
        [grid for grid in found if grid.rows],
        list(contents.seed_tables_of(document).values()),
        contents.lists(document),
    )


def rows_grid(document: Document) -> Grid:
    """Returns what each row does."""
    about = {row.name: row.about for row in document.rows}
    return Grid(ROWS, ["row", "what it does"], [[name, text] for name, text in about.items()])
