"""Renders the page: from a document to HTML, through the template beside this file."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .. import contents, grids
from ..catalogue import GROUPS, targets
from ..instructions.goals import ROW as INSTRUCTIONS_ROW
from ..recorded.missed import missed_targets
from ..recorded.record import record_of
from ..results import Document
from ..words import EXPLANATIONS, FLOOR_SAYS, SEED_SAYS, TARGETS_SAY, linkless, rounds_text
from .clients import Clients
from .figures import sections
from .headline import headlines

#: A table with more lines than this is folded.
LONG = 10


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
        missed=missed_targets(record_of(document)),
        rounds=rounds_text(document.rounds),
        met=sum(target.met for target in wanted),
        targets=wanted,
        about=_about(document),
        explained=[_bold(text) for text in (FLOOR_SAYS, TARGETS_SAY, SEED_SAYS)],
        explanations=[_bold(text) for text in EXPLANATIONS],
        target_table=grids.target_grid(document),
        contestant_table=grids.contestants(document),
        sections=sections(document),
        tables=contents.tables(document),
        seed_tables=contents.seed_tables_of(document).values(),
        lists=contents.lists(document),
        long=LONG,
        svg=Markup,
        linkless=linkless,
    )


def _about(document: Document) -> dict[str, str]:
    """Returns what each row, group and target does, by its name. A target may be about one concurrency model of a row, or
    about all rows whose names begin so.
    """
    rows = {row.name: row.about for row in document.rows}
    names = [target.row for target in targets(document)]
    about = {name: rows.get(name.split()[0], f"all rows {name}:…") for name in names}
    about[INSTRUCTIONS_ROW] = "of one operation, counted under callgrind"
    groups = {group.name: group.title for group in GROUPS.values()}
    return {**about, **groups, **rows}


def _bold(text: str) -> Markup:
    """Returns Markdown's bold face as HTML; the rest is escaped."""
    parts = text.split("**")
    return Markup("").join(
        Markup("<b>{}</b>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )
