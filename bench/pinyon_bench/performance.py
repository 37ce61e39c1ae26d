"""PERFORMANCE.md, written from a result document."""

from __future__ import annotations

from . import grids
from .grids import Grid
from .history import history_grid
from .results import Document
from .targets import target_grid


def performance_page(document: Document) -> str:
    """Returns the page as Markdown."""
    sections = [
        "# Performance",
        _head(document),
        "## How it was measured",
        _method(document),
        _table(grids.contestants(document)),
        _section(target_grid(document)),
        "## The seeds' tables",
        _seed(document),
        *(_section(grids.rate_grid(document, group)) for group in grids.GROUP_TITLES),
        _section(grids.processor_grid(document)),
        _listed("Same within noise", grids.noise_sentences(document)),
        _listed("Not measured", grids.gap_sentences(document)),
        _section(grids.syscall_grid(document)),
        _section(grids.memory_grid(document)),
        _section(history_grid(document)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(document: Document) -> str:
    machine = document.machine
    versions = ", ".join(f"{name} {version}" for name, version in document.versions.items())
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.kernel}, {machine.system}. {versions}.\n"
        f"Measured {document.created}. Absolute figures move with the machine; compare ratios within one run."
    )


def _method(document: Document) -> str:
    return (
        f"`{document.command}` (`make bench-record`) repeats it and rewrites this page from its JSON.\n\n"
        f"Placement {document.placement}, `memcached -t 1`, {document.rounds} rounds in which the contestants take\n"
        "turns row by row (A B C, then C B A), each in a process of its own. Every contestant's results are verified on\n"
        "every row before it is timed, and the servers' own counters are checked around every timed cell. Rates are\n"
        "medians over the rounds, ratios are medians of the ratios within each round. Where a ratio's spread over the\n"
        "rounds has 1 inside, the two are called the same."
    )


def _seed(document: Document) -> str:
    lines = grids.seed_lines(document)
    if not lines:
        return "Not run."
    return "\n".join([f"In {grids.seed_caption(document)}.", "", "```", *lines, "```"])


def _section(grid: Grid) -> str:
    if not grid.rows:
        return ""
    return f"## {grid.title}\n\n{_table(grid)}"


def _table(grid: Grid) -> str:
    lines = [_line(grid.header), _line(["---"] * len(grid.header)), *(_line(row) for row in grid.rows)]
    text = "\n".join(lines)
    return f"{text}\n\n{grid.note}" if grid.note else text


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"


def _listed(title: str, sentences: list[str]) -> str:
    return f"## {title}\n\n{_bullets(sentences)}" if sentences else ""


def _bullets(sentences: list[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
