"""Seed 004's tables in its layout: each library's test 1, then its test 2."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from ..compare import participants, samples_of
from ..results import Document, RowInfo, Sample
from .measures import lock_rows_of
from .rows import MUTEX_CYCLES, MUTEX_WORKERS
from .workloads import MUTEX, SECTION, group_of

FIRST_TITLE = f"lock/unlock {MUTEX_CYCLES} times with concurrency: {MUTEX_WORKERS}"
SECOND_TITLE = "lock/write/incr/read/del/unlock in {seconds:g} seconds + cooldown period:"
SEED_NOTE = (
    "Seconds of user time, system time and wall-clock time, medians over the rounds. In the second table the first figure "
    "is the number of cycles completed."
)


def seed_lines(document: Document) -> list[str]:
    """Returns a block for each library, with an empty line after each table."""
    names = [name for workload in (MUTEX, SECTION) for name in participants(document, group_of(workload))]
    second_title = SECOND_TITLE.format(seconds=_section_seconds(document))
    lines: list[str] = []
    for info in document.contestants:
        if info.name in names:
            lines.append(f"Library: {info.name} {info.version}")
            lines += _table(document, info.name, MUTEX, FIRST_TITLE, 14, _first_line)
            lines += _table(document, info.name, SECTION, second_title, 16, _second_line)
    return lines


def _table(
    document: Document,
    name: str,
    workload: str,
    title: str,
    indent: int,
    line: Callable[[str, list[Sample]], str],
) -> list[str]:
    rows = [(row, samples_of(document, row.name, name)) for row in lock_rows_of(document, workload)]
    measured = [(row, samples) for row, samples in rows if samples]
    if not measured:
        return []
    header = f"{'':{indent}}{'user':>10}{'system':>11}{'total':>11}{'real':>12}"
    return [title, header, *(line(_label(row), samples) for row, samples in measured), ""]


def _section_seconds(document: Document) -> float:
    """Returns how long the second test ran: the time of the client that cooled down fastest, rounded down."""
    names = {row.name for row in lock_rows_of(document, SECTION)}
    least = min((sample.wall for sample in document.samples if sample.row in names), default=0.0)
    return int(least * 10) / 10 if least < 1 else int(least)


def _label(row: RowInfo) -> str:
    return f"keys:{row.keys:2}/{2 * row.keys - 1:2}"


def _first_line(label: str, samples: list[Sample]) -> str:
    return f"{label}    {_figures(samples)}"


def _second_line(label: str, samples: list[Sample]) -> str:
    return f"{label} {median(sample.operations for sample in samples):5.0f}{_figures(samples)}"


def _figures(samples: list[Sample]) -> str:
    user, system, real = (median(part) for part in zip(*((each.user, each.system, each.wall) for each in samples)))
    return f"{user:10.6f} {system:10.6f} {user + system:10.6f} ({real:10.6f})"
