"""Output: tables and colours on a terminal, plain lines in a pipe.

Without the package ``rich``, a terminal gets plain lines and a hint to install it.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console


@functools.cache
def console() -> Console | None:
    """Return the terminal, or None in a pipe."""
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        print("pinyon: for tables, colours and progress: pip install 'pinyon[cli]'", file=sys.stderr)
        return None
    return Console(highlight=False)


def say(line: str, style: str = "") -> None:
    """Print a line."""
    terminal = console()
    if terminal is None:
        print(line)
    else:
        terminal.print(line, style=style, markup=False, soft_wrap=True)


def complain(line: str) -> None:
    """Print a line to standard error."""
    print(f"pinyon: {line}", file=sys.stderr)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table. In a pipe, print a line for each row, with tabs between the fields."""
    terminal = console()
    if terminal is None:
        for row in [columns, *rows] if sys.stdout.isatty() else rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        options: dict[str, Any] = {"justify": "right", "no_wrap": True} if column in right else {"overflow": "fold"}
        table.add_column(column, **options)
    for row in rows:
        table.add_row(*map(Text, row))
    terminal.print(table)


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
