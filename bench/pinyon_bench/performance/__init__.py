"""The two pages of the last long run: docs/performance-tables.md, and PERFORMANCE.md, which is made from those tables."""

from __future__ import annotations

from pathlib import Path

from ..recorded.medians import medians
from ..recorded.record import Record, record_of
from ..report.figures import sections
from ..results import Document
from .markdown import read_tables, tables_page
from .summary import PLOTS, summary_page

PAGE = Path("PERFORMANCE.md")
TABLES = Path("docs", "performance-tables.md")


def write(document: Document, folder: Path) -> list[Path]:
    """Writes the tables of a result document, then the page from them; returns what it wrote."""
    tables = folder / TABLES
    tables.parent.mkdir(parents=True, exist_ok=True)
    tables.write_text(tables_page(record_of(document)), encoding="utf-8")
    return [tables, rewrite(folder)]


def rewrite(folder: Path) -> Path:
    """Writes the page and its plots from the tables that are there; returns the page. Raises ResultError and OSError."""
    record = read_tables(folder / TABLES)
    page = folder / PAGE
    page.write_text(summary_page(record), encoding="utf-8")
    _write_plots(record, folder / PLOTS)
    return page


def _write_plots(record: Record, folder: Path) -> None:
    """Writes the plots of the page and removes all others."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for section in sections(medians(record)):
        for plot in section.main_plots:
            (folder / f"{plot.key}.svg").write_text(plot.svg + "\n", encoding="utf-8")
