"""The page itself: from a document to HTML, through the template beside this file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .. import grids
from ..coroutines import grids as pairs_grids
from ..grids import NONE, Grid
from ..history import history_grid
from ..locks import seed_lines as lock_lines
from ..locks.grids import lock_grids
from ..results import Document
from ..targets import target_grid, targets
from .clients import Clients
from .figures import sections
from .headline import headlines

LONG = 10
FIGURE = re.compile(r"[~+\-]?\d[\d,.]*( \([\d,.]+\))?(\n.*)?|")


@dataclass(frozen=True)
class Table:
    """A grid as the page shows it: which of its columns hold figures, and whether it is folded away."""

    grid: Grid
    figures: list[bool]
    folded: bool


def page(document: Document) -> str:
    """Returns the page as HTML."""
    environment = Environment(
        loader=PackageLoader("pinyon_bench.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    wanted = targets(document)
    return environment.get_template("page.html").render(
        document=document,
        ours=Clients(document).ours,
        headlines=headlines(document),
        missed=[target for target in wanted if not target.met],
        targets=wanted,
        target_table=_table(target_grid(document)),
        contestant_table=_table(grids.contestants(document)),
        sections=sections(document),
        tables=_tables(document),
        seed_lines=grids.seed_lines(document),
        seed_caption=grids.seed_caption(document),
        pairs_lines=pairs_grids.seed_lines(document),
        pairs_note=pairs_grids.SEED_NOTE,
        lock_lines=lock_lines.seed_lines(document),
        lock_note=lock_lines.SEED_NOTE,
        same=grids.noise_sentences(document),
        gaps=grids.gap_sentences(document),
        svg=Markup,
    )


def _tables(document: Document) -> list[Table]:
    """Returns every table that is printed on the terminal too, besides the seeds' own and the targets."""
    found = [
        *(grids.rate_grid(document, group) for group in grids.GROUP_TITLES),
        grids.processor_grid(document),
        *(pairs_grids.rate_grid(document, group) for group in pairs_grids.GROUP_TITLES),
        *(pairs_grids.processor_grid(document, group) for group in pairs_grids.GROUP_TITLES),
        *lock_grids(document),
        grids.syscall_grid(document),
        grids.memory_grid(document),
        history_grid(document) if grids.participants(document, "seed") else Grid("", []),
    ]
    return [_table(grid) for grid in found if grid.rows]


def _table(grid: Grid) -> Table:
    columns = range(len(grid.header))
    figures = [all(row[column] == NONE or FIGURE.fullmatch(row[column]) for row in grid.rows) for column in columns]
    return Table(grid, figures, len(grid.rows) > LONG)
