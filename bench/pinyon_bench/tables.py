"""Prints a result document's tables on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import grids
from .coroutines import grids as pairs_grids
from .grids import Grid
from .history import history_grid
from .locks import seed_lines as lock_lines
from .locks.grids import lock_grids
from .results import Document
from .targets import target_grid

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
    _print_grid(grids.contestants(document), console, text=frozenset({0, 1, 2}))
    _print_seed(document, console)
    for group in grids.GROUP_TITLES:
        _print_grid(grids.rate_grid(document, group), console)
    _print_grid(grids.processor_grid(document), console)
    for group in pairs_grids.GROUP_TITLES:
        _print_grid(pairs_grids.rate_grid(document, group), console)
    for group in pairs_grids.GROUP_TITLES:
        _print_grid(pairs_grids.processor_grid(document, group), console)
    for grid in lock_grids(document):
        _print_grid(grid, console)
    _print_list("Same within noise", grids.noise_sentences(document), console)
    _print_list("Not measured", grids.gap_sentences(document), console)
    _print_grid(grids.syscall_grid(document), console, text=frozenset({0, 1, 3}))
    _print_grid(grids.memory_grid(document), console, text=frozenset({0, 1, 5}))
    _print_grid(target_grid(document), console, text=frozenset({0, 1, 3}))
    if grids.participants(document, "seed"):
        _print_grid(history_grid(document), console)


def print_head(document: Document, console: Console) -> None:
    """Prints machine, versions and placement."""
    machine = document.machine
    console.print(f"[bold]{escape(machine.cpu)}[/], {machine.cores} cores, {machine.kernel}, {machine.system}")
    versions = ", ".join(f"{name} {version}" for name, version in document.versions.items())
    rounds = f", {document.rounds} rounds" if document.rounds else ""
    console.print(f"{versions}; placement {document.placement}{rounds}; {document.created}")


def _print_seed(document: Document, console: Console) -> None:
    lines = grids.seed_lines(document)
    if not lines:
        return
    console.print(f"\n[bold]{grids.GROUP_TITLES['seed']}[/], {grids.seed_caption(document)}")
    for line in lines:
        console.print(line, markup=False, no_wrap=True, overflow="ignore", crop=False)


def print_seed_lines(document: Document, console: Console, pairs: bool, locks: bool) -> None:
    """Prints the tables of seed 002, of seed 004, or both, in the seeds' layout."""
    if pairs:
        _print_lines(pairs_grids.seed_lines(document), pairs_grids.SEED_NOTE, console)
    if locks:
        _print_lines(lock_lines.seed_lines(document), lock_lines.SEED_NOTE, console)


def _print_lines(lines: list[str], note: str, console: Console) -> None:
    console.print()
    for line in lines:
        console.print(line, markup=False)
    if lines:
        console.print(f"[dim]{escape(note)}[/]")


def _print_grid(grid: Grid, console: Console, text: frozenset[int] = frozenset({0})) -> None:
    """Prints a grid; the columns whose numbers are in `text` hold words, the others figures."""
    if not grid.rows:
        return
    console.print(f"\n[bold]{escape(grid.title)}[/]")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for number, name in enumerate(grid.header):
        words = number in text
        heading = escape(name).replace("-", "-\n").replace(" ", "\n")
        table.add_column(heading, justify="left" if words else "right", no_wrap=not words or number == 0)
    for row in grid.rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table)
    if grid.note:
        console.print(f"[dim]{escape(grid.note)}[/]")


def _print_list(title: str, sentences: list[str], console: Console) -> None:
    if not sentences:
        return
    console.print(f"\n[bold]{title}[/]")
    for sentence in sentences:
        console.print(f"  {escape(sentence)}")
