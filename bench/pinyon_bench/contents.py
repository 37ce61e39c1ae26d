"""The tables of a result document, in order; terminal, Markdown and HTML all take them from here."""

from __future__ import annotations

from . import grids
from .compare import participants
from .coroutines import seed_tables
from .grids import Grid, Lines
from .history import history_grid
from .locks import seed_lines as lock_lines
from .locks.grids import lock_grids
from .locks.history import lock_history_grids
from .perl.history import seed_003_grids
from .perl.rows import PERL_SEED
from .results import Document
from .ruby.rows import RUBY_SEED
from .step_rows import SEED


def tables(document: Document) -> list[Grid]:
    """Returns every table with lines, except contestants and targets."""
    found = [
        *grids.rate_grids(document),
        *grids.processor_grids(document),
        *lock_grids(document),
        grids.instruction_grid(document),
        grids.syscall_grid(document),
        grids.memory_grid(document),
    ]
    if any(participants(document, group) for group in (SEED.name, RUBY_SEED, PERL_SEED)):
        found.append(history_grid(document))
    found += [*seed_003_grids(document), *lock_history_grids(document)]
    return [grid for grid in found if grid.rows]


def seed_tables_of(document: Document) -> dict[str, Lines]:
    """Returns the tables in the layouts of the seeds, by the option of the verb `tables` that prints each alone."""
    found = {
        "seed": Lines("Dalli's ten rows in the layout of seed 000", grids.seed_lines(document), _seed_note(document)),
        "pairs": Lines(
            "Pairs of UUIDs in the layout of seed 002", seed_tables.seed_lines(document), seed_tables.SEED_NOTE
        ),
        "locks": Lines("Locks in the layout of seed 004", lock_lines.seed_lines(document), lock_lines.SEED_NOTE),
    }
    return {name: lines for name, lines in found.items() if lines.lines}


def lists(document: Document) -> dict[str, list[str]]:
    """Returns the lists of sentences by title."""
    found = {"Same within noise": grids.noise_sentences(document), "Not measured": grids.gap_sentences(document)}
    return {title: sentences for title, sentences in found.items() if sentences}


def _seed_note(document: Document) -> str:
    return (
        f"Figures are {grids.seed_caption(document)}. ×first: times the first client's rate; ×floor: times the floor's."
    )
