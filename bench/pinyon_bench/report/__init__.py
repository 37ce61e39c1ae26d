"""The report: one HTML page with plots, findings and tables, that needs nothing besides itself."""

from __future__ import annotations

from pathlib import Path

from ..results import Document
from .page import page


def write(document: Document, path: Path) -> Path:
    """Writes the page of the document in the JSON file `path` beside it, and returns where; raises OSError."""
    target = path.with_suffix(".html")
    target.write_text(page(document), encoding="utf-8")
    return target
