"""PERFORMANCE.md and its tables: the figures and plots of the last long run, in pages that people write."""

from __future__ import annotations

from pathlib import Path

from . import summary
from .markdown import refresh, table
from .plots import drawn
from .results import Document
from .tables import tables
from .terminal import head

#: The plots that PERFORMANCE.md shows.
PLOTS = (
    "gevent-get",
    "asyncio-get",
    "size-get",
    "multiget-1",
    "locks-pair-blocking",
    "locks-mutex-gevent",
    "latency-asyncio-get-16",
    "latency-locks-handover-8",
)


def rewrite(document: Document, repository: Path) -> list[Path]:
    """Writes the tables into both pages, and the plots; returns the paths of the pages."""
    page, all_tables = repository / "PERFORMANCE.md", repository / "docs" / "performance-tables.md"
    measured = "  \n".join(head(document))
    refresh(page, "measured", measured)
    refresh(page, "summary", table(summary.summary(document)))
    refresh(page, "slower", table(summary.slower(document)))
    refresh(page, "missed", f"**{summary.verdict(document)}**\n\n{table(summary.missed(document))}")
    sections = (f"## {each.title}\n\n{table(each)}" for each in tables(document))
    refresh(all_tables, "tables", "\n\n".join([measured, *sections]))
    for key, svg in drawn(document, PLOTS).items():
        (repository / "docs" / "plots" / f"{key}.svg").write_text(svg, encoding="utf-8")
    return [page, all_tables]
