"""The figures that seeds 000 and 001 published, beside today's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .compare import figures, participants
from .grids import NONE, Grid
from .names import FLOOR
from .perl.rows import PERL_SEED
from .results import Document
from .ruby.rows import RUBY_SEED
from .step_rows import SEED, SEED_N

DATA = Path(__file__).with_name("history.json")
#: The groups of the seeds' rows, by language.
GROUPS = (SEED.name, RUBY_SEED, PERL_SEED)


@dataclass(frozen=True)
class Published:
    """One published table: user, system, total and real seconds by row."""

    name: str
    runtime: str
    hardware: str
    iterations: str
    figures: dict[str, list[float]]


def published() -> list[Published]:
    """Returns the published tables, oldest first."""
    return [Published(**each) for each in json.loads(DATA.read_text())]


def history_grid(document: Document) -> Grid:
    """Real seconds of the published tables, and of today's clients, for n = 2500: ours, the floor, and those in Ruby and Perl."""
    rows = list(
        dict.fromkeys(row.name.removeprefix(_prefix(group)) for group in GROUPS for row in document.rows_of(group))
    )
    names = participants(document, SEED.name)
    here = [("", name) for name in names if name in (names[0], FLOOR)]
    for group in GROUPS[1:]:
        known = {name for _, name in here}
        here += [(_prefix(group), name) for name in participants(document, group) if name not in known]
    lines = [[each.name, *(_past(each, row) for row in rows)] for each in published()]
    lines += [[f"{name}, here", *(_ours(document, f"{prefix}{row}", name) for row in rows)] for prefix, name in here]
    header = ["client", *(row.replace(":", "\n").replace("multiget", "multi-get") for row in rows)]
    title = f"History: real seconds for n = {SEED_N}, as published in seeds 000 and 001, and here"
    return Grid(title, header, lines, "The seeds call the object rows `ruby`. " + _sources())


def _prefix(group: str) -> str:
    """Returns how the rows of a group of the seeds' rows begin."""
    return group.removesuffix(SEED.name)


def _sources() -> str:
    """Says where each table was measured; tables of one machine share a sentence."""
    named: dict[str, list[str]] = {}
    for each in published():
        named.setdefault(f"{each.runtime}, {each.hardware}, n {each.iterations}", []).append(each.name)
    return " ".join(f"{' and '.join(names)}: {source}." for source, names in named.items())


def _past(each: Published, row: str) -> str:
    return _seconds(each.figures[row][3]) if row in each.figures else NONE


def _ours(document: Document, row: str, name: str) -> str:
    """Returns our seconds scaled to the seeds' n; they are already for it unless the run was shortened."""
    shown = figures(document, row, name)
    if shown is None:
        return NONE
    done = document.seed_iterations * (document.rounds if document.combine == "sum" else 1)
    return _seconds(shown.real * SEED_N / done)


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.2f}"
