"""PERFORMANCE.md and its plots, written from a result document."""

from __future__ import annotations

from pathlib import Path

from . import contents, grids
from .grids import Grid, Lines
from .report.figures import sections
from .report.plots import Section
from .results import Document

PLOTS = "docs/plots"


def write(document: Document, path: Path) -> None:
    """Writes the page, and its plots into `docs/plots` beside it, where no others remain; raises OSError."""
    shown = sections(document)
    folder = path.parent / PLOTS
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for section in shown:
        for plot in section.main_plots:
            (folder / f"{plot.key}.svg").write_text(plot.svg + "\n", encoding="utf-8")
    path.write_text(performance_page(document, shown), encoding="utf-8")


def performance_page(document: Document, plots: list[Section] | None = None) -> str:
    """Returns the page as Markdown; with the main plots of these sections, or of all of the document's."""
    parts = [
        "# Performance",
        _head(document),
        *(_plots(section) for section in (sections(document) if plots is None else plots)),
        "## How it was measured",
        _method(document),
        _table(grids.contestants(document)),
        _section(grids.target_grid(document)),
        *(_lines(each) for each in contents.seed_tables_of(document).values()),
        *(_section(grid) for grid in contents.tables(document)),
        *(f"## {title}\n\n{_bullets(sentences)}" for title, sentences in contents.lists(document).items()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plots(section: Section) -> str:
    if not section.main_plots:
        return ""
    images = [f"![{_alternative(plot.title)}]({PLOTS}/{plot.key}.svg)" for plot in section.main_plots]
    findings = [f"{plot.title}: {plot.finding}" for plot in section.main_plots if plot.finding]
    return "\n\n".join([f"## {section.title}", section.lead, "\n".join(images), _bullets(findings)])


def _alternative(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")


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
        f"Placement {document.placement}, `memcached -t 1` and for locks `redis-server`, {document.rounds} rounds in which the\n"
        "contestants take turns row by row (A B C, then C B A), each in a process of its own. Every contestant's results\n"
        "are verified on every row before it is timed, and memcached's own counters are checked around every timed cell;\n"
        "Redis's are kept: its commands, their time, its reads. Rates are\n"
        "medians over the rounds, ratios are medians of the ratios within each round. Where a ratio's spread over the\n"
        "rounds has 1 inside, the two are called the same."
    )


def _lines(shown: Lines) -> str:
    return "\n".join([f"## {shown.title}", "", shown.note, "", "```", "\n".join(shown.lines).rstrip(), "```"])


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


def _bullets(sentences: list[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
