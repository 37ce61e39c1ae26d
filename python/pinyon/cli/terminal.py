"""Output: tables and colours on a terminal, plain lines in a pipe. Colours need the package ``rich``."""

from __future__ import annotations

import functools
import shutil
import sys
from typing import TYPE_CHECKING

from pinyon.cli.tables import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console


@functools.cache
def console() -> Console | None:
    """Return the terminal, or None in a pipe and without ``rich``."""
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(highlight=False)


def console_for(what: str) -> Console | None:
    """Return the terminal. Without ``rich``, say on a terminal that ``what`` needs it, and return None."""
    terminal = console()
    if terminal is None and sys.stdout.isatty():
        complain(f"{what} needs the package rich: pip install rich")
    return terminal


def say(line: str, style: str = "") -> None:
    """Print a line."""
    terminal = console()
    if terminal is None:
        print(line)
    else:
        terminal.print(line, style=style, markup=False, soft_wrap=True)


def say_labelled(label: str, text: str, style: str) -> None:
    """Print a line whose beginning has a style of its own."""
    terminal = console()
    if terminal is None:
        print(label + text)
        return
    from rich.text import Text

    terminal.print(Text.assemble((label, style), text), soft_wrap=True)


def complain(line: str) -> None:
    """Print a line to standard error."""
    print(f"pinyon: {line}", file=sys.stderr)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table. In a pipe, print a line for each row, with tabs between the fields.

    Args:
        columns: the headings.
        rows: the fields of each row.
        right: the headings of columns that are aligned on the right.
    """
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    for line in lines_of(columns, rows, right, shutil.get_terminal_size().columns):
        say(*line)


def space_out() -> None:
    """Print an empty line on a terminal, between tables."""
    if sys.stdout.isatty():
        print()


def text_of(name: str | bytes) -> str:
    """Return a name as readable text, without control characters."""
    text = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def duration(seconds: float) -> str:
    """Return a duration in suitable units."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
