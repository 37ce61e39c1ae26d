"""Prints a result document on the terminal: its tables, then what to know first."""

from __future__ import annotations

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table as Shown

from . import summary
from .results import Document
from .tables import Table, tables

PLAIN_WIDTH = 100
FLOOR_SAYS = (
    "The floor is a minimal Rust program that sends and receives Pinyon's bytes on a blocking socket and checks no reply. "
    "Its rate is about the highest that any client could reach on this machine."
)


def make_console() -> Console:
    """Returns a console as wide as the terminal, or of 100 columns when there is none."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=PLAIN_WIDTH)


def print_document(document: Document, console: Console) -> None:
    """Prints where it was measured, every table, and at the end the summary and what was missed."""
    for line in head(document):
        console.print(escape(line))
    for table in tables(document):
        print_table(table, console)
    print_table(summary.summary(document), console)
    console.print(f"[dim]{FLOOR_SAYS}[/]")
    print_table(summary.missed(document), console)
    if says := summary.verdict(document):
        console.print(f"\n[bold]{says}[/]")


def head(document: Document) -> tuple[str, str]:
    """Returns machine, versions and placement in two lines."""
    machine = document.machine
    versions = ", ".join(f"{name} {version}" for name, version in document.versions.items())
    rounds = f", at most {document.rounds} round{'s' * (document.rounds > 1)}" if document.rounds else ""
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.kernel}, {machine.system}",
        f"{versions}; placement {document.placement}{rounds}; {document.created}",
    )


def print_table(table: Table, console: Console) -> None:
    """Prints a table with its title and note; nothing without rows."""
    if not table.rows:
        return
    console.print(f"\n[bold]{escape(table.title)}[/]")
    _print_columns(table, list(range(1, len(table.header))), console)
    if table.note:
        console.print(f"[dim]{escape(table.note)}[/]")


def _print_columns(table: Table, columns: list[int], console: Console) -> None:
    """Prints these columns beside the first one; in several tables where they are too wide for the console."""
    if len(columns) > 1 and sum(_least_width(table, column) for column in [0, *columns]) > console.width:
        half = (len(columns) + 1) // 2
        _print_columns(table, columns[:half], console)
        _print_columns(table, columns[half:], console)
        return
    shown = Shown(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in [0, *columns]:
        justify: JustifyMethod = "right" if table.is_figure(column) else "left"
        shown.add_column(
            escape(_heading(table, column)), justify=justify, no_wrap=_is_fixed(table, column), overflow="fold"
        )
    for row in table.rows:
        shown.add_row(*(escape(row[column]) for column in [0, *columns]))
    console.print(shown)


def _heading(table: Table, column: int) -> str:
    return table.header[column].replace("-", "-\n").replace(" ", "\n")


def _is_fixed(table: Table, column: int) -> bool:
    """Returns whether a column's cells stay on their lines: labels and figures do, words may be wrapped."""
    return table.is_figure(column) or column == 0


def _least_width(table: Table, column: int) -> int:
    """Returns the width that a column needs, with the space after it."""
    texts = [_heading(table, column), *(row[column] for row in table.rows)] if _is_fixed(table, column) else [""]
    return max(len(line) for text in texts for line in text.split("\n")) + 1
