"""The page itself: from a document to HTML, through the template beside this file."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .. import contents, grids
from ..catalogue import targets
from ..results import Document
from .clients import Clients
from .figures import sections
from .headline import headlines

#: A table with more lines is folded away.
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
        missed=[target for target in wanted if not target.met],
        targets=wanted,
        target_table=grids.target_grid(document),
        contestant_table=grids.contestants(document),
        sections=sections(document),
        tables=contents.tables(document),
        seed_tables=contents.seed_tables_of(document).values(),
        lists=contents.lists(document),
        long=LONG,
        svg=Markup,
    )
