"""Tables in Markdown, and the parts of pages that a program writes."""

from __future__ import annotations

from pathlib import Path

from .tables import Table


def table(shown: Table) -> str:
    """Returns a table as Markdown, with its note below."""
    rule = ["---:" if shown.is_figure(column) else "---" for column in range(len(shown.header))]
    lines = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in (shown.header, rule, *shown.rows))
    return f"{lines}\n\n{shown.note}" if shown.note else lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")


def refresh(path: Path, name: str, text: str) -> None:
    """Replaces the text between a page's marks of a name. Raises ValueError if there are none."""
    page = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, first, rest = page.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"{path} has no {begin} and {end}")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
