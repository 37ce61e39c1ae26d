"""The page of tables as Markdown, and back: what the page says can be read again, so no figure is written twice."""

from __future__ import annotations

import re
from pathlib import Path

from ..grids import Grid, Lines
from ..recorded.record import Record
from ..results import ResultError
from ..words import EXPLANATIONS, rounds_text

TITLE = "# Performance tables"
LEAD = (
    "These are all tables of the last long run. [PERFORMANCE.md](../PERFORMANCE.md) is the summary: findings, plots, and\n"
    "the targets that were missed."
)
READING = "How to read the tables"
FENCE = "```"
HEAD = re.compile(
    r"\n(?P<machine>[^\n]+)\.\n(?P<versions>[^\n]+)\.\nMeasured (?P<created>[^\n]+) with `(?P<command>[^`\n]+)`,\n"
    r"placement (?P<placement>\S+), (?P<rounds>\d+) rounds?\.\n"
)
CELL = re.compile(r"(?<!\\)\|")


def tables_page(record: Record) -> str:
    """Returns the page as Markdown."""
    parts = [
        TITLE,
        _head(record),
        LEAD,
        f"## {READING}\n\n{bullets(EXPLANATIONS)}",
        *(f"## {grid.title}\n\n{table(grid)}" for grid in record.grids),
        *(_layout(each) for each in record.layouts),
        *(f"## {title}\n\n{bullets(sentences)}" for title, sentences in record.lists.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _head(record: Record) -> str:
    return (
        f"{record.machine}.\n{record.versions}.\nMeasured {record.created} with `{record.command}`,\n"
        f"placement {record.placement}, {rounds_text(record.rounds)}."
    )


def _layout(shown: Lines) -> str:
    return "\n".join([f"## {shown.title}", "", shown.note, "", FENCE, "\n".join(shown.lines).rstrip(), FENCE])


def table(grid: Grid) -> str:
    """Returns a table as Markdown, with its note below."""
    rule = ["---:" if is_figure else "---" for is_figure in grid.figures]
    lines = [_line(grid.header), _line(rule), *(_line(row) for row in grid.rows)]
    text = "\n".join(lines)
    return f"{text}\n\n{grid.note}" if grid.note else text


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"


def bullets(sentences: tuple[str, ...] | list[str]) -> str:
    """Returns a list as Markdown."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def read_tables(path: Path) -> Record:
    """Returns the record that a page of tables was written from; raises ResultError when the file is no such page."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None
    head = HEAD.search(text)
    if not text.startswith(TITLE) or head is None:
        raise ResultError(f"{path}: not a page of performance tables; `record` writes one")
    where = head["machine"], head["versions"], head["created"], head["command"], head["placement"]
    record = Record(*where, int(head["rounds"]))
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        _add(record, title, body.strip())
    return record


def _add(record: Record, title: str, body: str) -> None:
    if title == READING:
        return
    if body.startswith("|"):
        record.grids.append(_grid(title, body))
    elif body.startswith("- "):
        record.lists[title] = [line.removeprefix("- ") for line in body.splitlines()]
    else:
        note, _, rest = body.partition(f"\n\n{FENCE}\n")
        record.layouts.append(Lines(title, rest.removesuffix(f"\n{FENCE}").splitlines(), note))


def _grid(title: str, body: str) -> Grid:
    text, _, note = body.partition("\n\n")
    header, _, *rows = (_cells(line) for line in text.splitlines())
    return Grid(title, header, rows, note)


def _cells(line: str) -> list[str]:
    cells = CELL.split(line)[1:-1]
    return [cell.strip().replace("<br>", "\n").replace("\\|", "|") for cell in cells]
