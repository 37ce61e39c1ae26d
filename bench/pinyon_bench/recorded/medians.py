"""The figures in a record's tables, by row and contestant; and as a document of one round, for plots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..catalogue import GROUPS, all_rows
from ..declaration import Group, Row
from ..grids import Grid, contestant_in
from ..locks.grids import WAITING
from ..names import FLOOR, MODELS
from ..results import ContestantInfo, Document, Latency, Machine, Sample
from ..step_rows import STEP_GROUPS
from .record import CONTESTANTS, Record

OPERATIONS = 1000
MICROSECONDS = 1e6
RATE = re.compile(r"([\d,]+)(?:(?:\n| \()(~?)([\d.]+)\)?)?")
PAIRS_TITLE = re.compile(r"### (?P<client>.+?)(?: (?P<model>\w+))? (?P<operation>get|set) \(\d+ keys\)")


@dataclass(frozen=True)
class Figure:
    """A rate, and its ratio to what its table compares it with: None when it stands alone."""

    rate: float
    ratio: float | None = None
    same: bool = False


class Figures:
    """What the tables of a record say of rows and contestants."""

    def __init__(self, record: Record) -> None:
        self.contestants = [name for line in record.grid(CONTESTANTS).rows for name in _contestants(line[0])]
        self.rates = dict(_rates(record))
        self._by_row: dict[str, dict[str, Figure]] = {}
        for (row, contestant), figure in self.rates.items():
            self._by_row.setdefault(row, {})[contestant] = figure
        self.processor = dict(_processor_times(record))
        self.latencies = {**dict(_pair_latencies(record)), **dict(_handover_latencies(record))}

    def rate(self, row: str, contestant: str) -> float | None:
        """Returns operations per second."""
        found = self.rates.get((row, contestant))
        return found.rate if found else None

    def in_row(self, row: str) -> dict[str, Figure]:
        """Returns the figures of a row by contestant."""
        return self._by_row.get(row, {})


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in all_rows(False):
        found.setdefault(row.group, []).append(row)
    return found


def _contestants(named: str) -> Iterator[str]:
    """Gives the contestants that one line names: `Pinyon`, `libmc, also gevent`, `emcache asyncio, uvloop`."""
    client, *others = named.split(", ")
    others = [word.removeprefix("also ") for word in others]
    base = client.rpartition(" ")[0] if others and client.rpartition(" ")[2] in MODELS else client
    yield client
    yield from (f"{base} {model}" for model in others)


def _rates(record: Record) -> Iterator[tuple[tuple[str, str], Figure]]:
    for group in GROUPS.values():
        for cell, text in _cells(record.grid(f"{group.title}{group.counted}"), group, group.transposed):
            if found := RATE.fullmatch(text):
                rate, same, ratio = found.groups()
                yield cell, Figure(_number(rate), float(ratio) if ratio else None, bool(same))


def _processor_times(record: Record) -> Iterator[tuple[tuple[str, str], float]]:
    for grid in record.grids:
        for group in GROUPS.values():
            of_group = group in STEP_GROUPS and grid.title.startswith("Blocking calls: client CPU")
            if of_group or grid.title.startswith(f"{group.title}, client CPU"):
                yield from ((cell, float(text)) for cell, text in _cells(grid, group, False) if text != "–")


def _cells(grid: Grid, group: Group, transposed: bool) -> Iterator[tuple[tuple[str, str], str]]:
    """Gives the row, the contestant and the text of each cell that belongs to a group."""
    lines = [grid.header, *grid.rows] if grid.rows else []
    if transposed:
        lines = [list(line) for line in zip(*lines)]
    rows = {group.label(row.info()): row for row in _rows().get(group.name, [])}
    for label, *texts in lines[1:]:
        row = rows.get(label)
        if row is None:
            continue
        for client, text in zip(lines[0][1:], texts):
            contestant = contestant_in(client, row.info()) if group.by_client else client
            yield (row.name, contestant), text


def _pair_latencies(record: Record) -> Iterator[tuple[tuple[str, str], Latency]]:
    lines = [line for layout in record.layouts for line in layout.lines]
    client = operation = ""
    for line in lines:
        if found := PAIRS_TITLE.fullmatch(line):
            client, operation = found["client"], found["operation"]
        fields = line.split()
        model, _, many = fields[0].rpartition("-") if len(fields) == 7 else ("", "", "")
        if client and model in MODELS:
            mean, middle, p99, longest = (float(field) / 1e3 for field in fields[3:])
            contestant = client if client == FLOOR else f"{client} {model}"
            yield (f"{model}:{operation}:{int(many)}", contestant), Latency(mean, middle, p99, longest)


def _handover_latencies(record: Record) -> Iterator[tuple[tuple[str, str], Latency]]:
    grid = record.grid(WAITING)
    row = next((row.name for row in _rows().get("locks:handover", [])), "")
    for line in grid.rows:
        cells = dict(zip(grid.header, line))
        middle, p99 = cells["next p50 µs"], cells["next p99 µs"]
        if middle != "–":
            low, high = _number(middle) / MICROSECONDS, _number(p99) / MICROSECONDS
            yield (row, line[0]), Latency(low, low, high, high)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def medians(record: Record) -> Document:
    """Returns a document whose single round has the medians in the tables; what they do not have, it lacks."""
    figures = Figures(record)
    cells = dict.fromkeys([*figures.rates, *figures.latencies])
    samples = []
    for row, contestant in cells:
        latency = figures.latencies.get((row, contestant))
        rate = figures.rate(row, contestant)
        each = 1 / rate if rate else latency.median if latency else 0.0
        busy = figures.processor.get((row, contestant), 0.0) / MICROSECONDS
        samples.append(Sample(1, row, contestant, OPERATIONS, each * OPERATIONS, busy * OPERATIONS, 0.0, latency))
    measured = {row for row, _ in cells}
    rows = [row.info() for row in all_rows(False) if row.name in measured]
    contestants = [ContestantInfo(name) for name in figures.contestants]
    machine = Machine(record.machine, 0, "", "")
    return Document(
        record.created,
        record.command,
        record.placement,
        1,
        0,
        "median",
        machine,
        {},
        contestants,
        rows,
        samples=samples,
    )
