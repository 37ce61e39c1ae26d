"""Prints a result document's tables on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import contents, grids
from .grids import Grid, Lines
from .results import Document

PLAIN_WIDTH = 100


def make_console() -> Console:
    """Returns a console as wide as the terminal, or of 100 columns when there is none."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=PLAIN_WIDTH)


def print_tables(document: Document, console: Console, pairs: bool = False, locks: bool = False) -> None:
    """Prints what a document has: who, the seeds' rows, the others, what is the same, gaps, history.

    With `pairs` it prints instead the tables of seed 002, client by client, and with `locks` those of seed 004.
    """
    print_head(document, console)
    if pairs or locks:
        print_seed_lines(document, console, pairs, locks)
        return
    _print_grid(grids.contestants(document), console)
    seed = contents.seed_tables_of(document).get("seed")
    if seed:
        console.print()
        _print_lines(seed, console)
    for grid in [*contents.tables(document), grids.target_grid(document)]:
        _print_grid(grid, console)
    for title, sentences in contents.lists(document).items():
        console.print(f"\n[bold]{title}[/]")
        for sentence in sentences:
            console.print(f"  {escape(sentence)}")


def print_head(document: Document, console: Console) -> None:
    """Prints machine, versions and placement."""
    machine = document.machine
    console.print(f"[bold]{escape(machine.cpu)}[/], {machine.cores} cores, {machine.kernel}, {machine.system}")
    versions = ", ".join(f"{name} {version}" for name, version in document.versions.items())
    rounds = f", {document.rounds} rounds" if document.rounds else ""
    console.print(f"{versions}; placement {document.placement}{rounds}; {document.created}")


def print_seed_lines(document: Document, console: Console, pairs: bool, locks: bool) -> None:
    """Prints the tables of seed 002, of seed 004, or both, in the seeds' layout."""
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
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for number, (name, is_figure) in enumerate(zip(grid.header, grid.figures)):
        heading = escape(name).replace("-", "-\n").replace(" ", "\n")
        table.add_column(heading, justify="right" if is_figure else "left", no_wrap=is_figure or number == 0)
    for row in grid.rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table)
    if grid.note:
        console.print(f"[dim]{escape(grid.note)}[/]")
