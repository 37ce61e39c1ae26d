"""The figures that seed 004 published, beside today's."""

from __future__ import annotations

import json
from pathlib import Path

from ..compare import rate
from ..grids import NONE, Grid
from ..names import EVENTMACHINE, MODELS, contestant_name
from ..results import Document, RowInfo
from .goals import OURS_SCRIPT
from .measures import keys_label, lock_rows_of
from .workloads import MUTEX, SECTION

DATA = Path(__file__).with_name("history.json")


def lock_history_grids(document: Document) -> list[Grid]:
    """Cycles per second in each of the two tests, as published and of our clients here."""
    return [_history_grid(document, number, workload) for number, workload in ((1, MUTEX), (2, SECTION))]


def _history_grid(document: Document, number: int, workload: str) -> Grid:
    rows = lock_rows_of(document, workload)
    lines = []
    for name in (contestant_name(OURS_SCRIPT, model) for model in MODELS):
        found = [rate(document, row.name, name) for row in rows]
        if any(found):
            lines.append([f"{name}, here", *(_shown(value) for value in found)])
    past = [[each["name"], *(_past(each, row) for row in rows)] for each in json.loads(DATA.read_text())]
    header = ["client", *(keys_label(row) for row in rows)]
    note = (
        "redis-em-mutex: in fibers of EventMachine on Ruby 1.9.3 p374, redis-server 2.6.9, a quad-core Xeon. "
        f"`{contestant_name(OURS_SCRIPT, EVENTMACHINE)}` runs the test where it did."
    )
    title = f"History: lock cycles per second by names, as published in seed 004 (test {number}), and here"
    return Grid(title, header, [*past, *lines] if lines else [], note)


def _past(each: dict[str, dict[str, list[float]]], row: RowInfo) -> str:
    """Returns the published rate: 1,000 cycles by the seconds of test 1, or the cycles of test 2 by its seconds."""
    cycles, seconds = each[row.operation].get(str(row.keys), (0, 0))
    return _shown(cycles / seconds if seconds else None)


def _shown(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"
