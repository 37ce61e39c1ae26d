"""Tables on a terminal: aligned columns, or a short paragraph for each row where they do not fit."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP = "  "


class Line(NamedTuple):
    """A line of a table, with its style on a terminal."""

    text: str
    style: str = ""


def lines_of(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str], width: int) -> list[Line]:
    """Return the lines of a table. No line breaks a field, unless that alone is wider than ``width``."""
    widths = [max(map(_width, column)) for column in zip(columns, *rows)]
    if sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        return [line for row in rows for line in _paragraph(columns, row, width)]
    sides = [column in right for column in columns]
    heading, *others = (_aligned(row, widths, sides) for row in (columns, *rows))
    return [Line(heading, "bold"), *map(Line, others)]


def _aligned(row: Sequence[str], widths: Sequence[int], sides: Sequence[bool]) -> str:
    cells = []
    for cell, width, is_right in zip(row, widths, sides):
        space = " " * (width - _width(cell))
        cells.append(space + cell if is_right else cell + space)
    return _GAP.join(cells).rstrip()


def _paragraph(columns: Sequence[str], row: Sequence[str], width: int) -> Iterator[Line]:
    """Yield the first field, and below it the others with the names of their columns, as many in a line as fit.

    Fields that are empty are left out.
    """
    first, *others = row
    yield Line(first, "bold")
    line = ""
    for column, field in zip(columns[1:], others):
        if not field:
            continue
        said = f"{_GAP}{column.lower()} {field}"
        if line and _width(line + said) > width:
            yield Line(line)
            line = ""
        line += said
        if _width(line) > width:
            *full, line = _wrapped(line.strip(), width)
            yield from map(Line, full)
    yield Line(line)


def _wrapped(text: str, width: int) -> list[str]:
    """Return a long field in several lines, broken between words."""
    return textwrap.wrap(
        text, width, initial_indent=_GAP, subsequent_indent=2 * _GAP, break_long_words=False, break_on_hyphens=False
    )


def _width(text: str) -> int:
    """Return how many places of a terminal a text takes."""
    return sum(_places(character) for character in text)


def _places(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
