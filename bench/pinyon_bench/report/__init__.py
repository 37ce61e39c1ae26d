"""The report: one self-contained HTML page with findings, plots and tables."""

from __future__ import annotations

from pathlib import Path

from ..results import Document
from .page import page


def write(document: Document, path: Path) -> Path:
    """Writes the page beside the JSON file `path`, and returns its path; raises OSError."""
    target = path.with_suffix(".html")
    target.write_text(page(document), encoding="utf-8")
    return target
