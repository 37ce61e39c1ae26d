"""Prints a result document's tables on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from . import contents, grids
from .catalogue import targets
from .grids import Grid, Lines
from .recorded.missed import missed_targets
from .recorded.record import record_of, rows_grid
from .results import Document
from .words import FLOOR_SAYS, NOISE_SAYS, SEED_SAYS, linkless, plain, rounds_text

PLAIN_WIDTH = 100
INDENT = 7


def make_console() -> Console:
    """Returns a console as wide as the terminal, or of 100 columns when there is none."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=PLAIN_WIDTH)


def print_tables(document: Document, console: Console, pairs: bool = False, locks: bool = False) -> None:
    """Prints the findings, then every table of a document, then the findings in one line.

    With `pairs` it prints only the pairs of UUIDs in the layout of seed 002, and with `locks` the locks in that of seed 004.
    """
    print_head(document, console)
    if pairs or locks:
        print_seed_lines(document, console, pairs, locks)
        return
    _print_findings(document, console)
    _print_grid(grids.contestants(document), console)
    seed = contents.seed_tables_of(document).get("seed")
    if seed:
        console.print()
        _print_lines(seed, console)
    for grid in [*contents.tables(document), grids.target_grid(document), rows_grid(document)]:
        _print_grid(grid, console)
    for title, sentences in contents.lists(document).items():
        console.print(f"\n[bold]{title}[/]")
        for sentence in sentences:
            console.print(f"  {escape(sentence)}")
    _print_verdict(document, console)


def _print_findings(document: Document, console: Console) -> None:
    """Prints how many targets are met, which are missed and why, and the words that the tables use."""
    _print_verdict(document, console)
    for each in missed_targets(record_of(document)):
        for row, target, _, measured, spread in each.lines:
            rounds = f" ({spread})" if spread else ""
            console.print(f"[red]missed[/] {escape(f'{row}: {target}')}: [bold]{escape(measured)}[/]{rounds}")
        console.print(Padding(f"[dim]{escape(linkless(each.why))}[/]", (0, 0, 0, INDENT)))
    console.print()
    for text in (FLOOR_SAYS, SEED_SAYS, NOISE_SAYS):
        console.print(f"[dim]{escape(plain(text))}[/]")


def _print_verdict(document: Document, console: Console) -> None:
    found = targets(document)
    if found:
        met = sum(target.met for target in found)
        console.print(f"\n[bold]{met} of {len(found)} targets are met.[/]")


def print_head(document: Document, console: Console) -> None:
    """Prints machine, versions and placement."""
    machine = document.machine
    console.print(f"[bold]{escape(machine.cpu)}[/], {machine.cores} cores, {machine.kernel}, {machine.system}")
    versions = ", ".join(f"{name} {version}" for name, version in document.versions.items())
    rounds = f", {rounds_text(document.rounds)}" if document.rounds else ""
    console.print(f"{versions}; placement {document.placement}{rounds}; {document.created}")


def print_seed_lines(document: Document, console: Console, pairs: bool, locks: bool) -> None:
    """Prints the tables in the layout of seed 002, of seed 004, or both."""
    found = contents.seed_tables_of(document)
    for name in ["pairs"] * pairs + ["locks"] * locks:
        if name in found:
            console.print()
            _print_lines(found[name], console)


def _print_lines(shown: Lines, console: Console) -> None:
    console.print(f"[bold]{escape(shown.title)}[/]")
    for line in shown.lines:
        console.print(line, markup=False, no_wrap=True, overflow="ignore", crop=False)
    console.print(f"[dim]{escape(shown.note)}[/]")


def _print_grid(grid: Grid, console: Console) -> None:
    if not grid.rows:
        return
    console.print(f"\n[bold]{escape(grid.title)}[/]")
    _print_columns(grid, list(range(1, len(grid.header))), console)
    if grid.note:
        console.print(f"[dim]{escape(grid.note)}[/]")


def _print_columns(grid: Grid, columns: list[int], console: Console) -> None:
    """Prints these columns beside the first one; in several tables where they are too wide for the console."""
    if len(columns) > 1 and sum(_least_width(grid, column) for column in [0, *columns]) > console.width:
        half = (len(columns) + 1) // 2
        _print_columns(grid, columns[:half], console)
        _print_columns(grid, columns[half:], console)
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in [0, *columns]:
        justify: JustifyMethod = "right" if grid.figures[column] else "left"
        table.add_column(escape(_heading(grid, column)), justify=justify, no_wrap=_is_fixed(grid, column))
    for row in grid.rows:
        table.add_row(*(escape(row[column]) for column in [0, *columns]))
    console.print(table)


def _heading(grid: Grid, column: int) -> str:
    return grid.header[column].replace("-", "-\n").replace(" ", "\n")


def _is_fixed(grid: Grid, column: int) -> bool:
    """Returns whether a column's cells stay on their lines: labels and figures do, words may be wrapped."""
    return grid.figures[column] or column == 0


def _least_width(grid: Grid, column: int) -> int:
    """Returns the width that a column needs, with the space after it."""
    texts = [_heading(grid, column), *(row[column] for row in grid.rows)] if _is_fixed(grid, column) else [""]
    return max(len(line) for text in texts for line in text.split("\n")) + 1
