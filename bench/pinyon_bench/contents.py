"""What is shown of a result document, in order: the terminal, PERFORMANCE.md and the report all take it from here."""

from __future__ import annotations

from . import grids
from .compare import participants
from .coroutines import seed_tables
from .grids import Grid, Lines
from .history import history_grid
from .locks import seed_lines as lock_lines
from .locks.grids import lock_grids
from .results import Document
from .step_rows import SEED


def tables(document: Document) -> list[Grid]:
    """Returns every table that has lines, but for contestants and targets."""
    found = [
        *grids.rate_grids(document),
        *grids.processor_grids(document),
        *lock_grids(document),
        grids.syscall_grid(document),
        grids.memory_grid(document),
    ]
    if participants(document, SEED.name):
        found.append(history_grid(document))
    return [grid for grid in found if grid.rows]


def seed_tables_of(document: Document) -> dict[str, Lines]:
    """Returns the tables in the layouts of the seeds, by the verb's option that prints them alone."""
    found = {
        "seed": Lines("The seeds' tables", grids.seed_lines(document), f"In {grids.seed_caption(document)}."),
        "pairs": Lines("Seed 002's tables", seed_tables.seed_lines(document), seed_tables.SEED_NOTE),
        "locks": Lines("Seed 004's tables", lock_lines.seed_lines(document), lock_lines.SEED_NOTE),
    }
    return {name: lines for name, lines in found.items() if lines.lines}


def lists(document: Document) -> dict[str, list[str]]:
    """Returns what is said in sentences, by title."""
    found = {"Same within noise": grids.noise_sentences(document), "Not measured": grids.gap_sentences(document)}
    return {title: sentences for title, sentences in found.items() if sentences}
