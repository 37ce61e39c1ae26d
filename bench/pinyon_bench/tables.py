"""All tables of a result document; the terminal, Markdown and HTML show the same ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from .catalogue import GROUPS, targets
from .compare import participants, processor_time, rate, samples_of
from .instructions.goals import at_most
from .locks.measures import (
    PerCycle,
    commands_sent,
    handover_row,
    in_round_trips,
    lock_rows_of,
    middle_of,
    p99_of,
    per_cycle,
    published,
    reads,
    server_time,
    share_from_another,
)
from .locks.workloads import FAR, FAR_ONE_WAY_MILLISECONDS, HANDOVER, MUTEX, NEAR, PAIR, SECTION, Link
from .names import MODELS, OURS, model_of
from .results import Document, RowInfo

NONE = "–"
FIGURE = re.compile(r"[~+-]?[\d,.]+%?(?: \([\d.]+\))?|–|")
#: Computes the text of a cell: of a contestant in a row.
Cell = Callable[[Document, str, str], str]


@dataclass(frozen=True)
class Table:
    """A table as text."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""

    def is_figure(self, column: int) -> bool:
        """Whether a column has only figures, which are shown flush right."""
        return all(FIGURE.fullmatch(row[column]) for row in self.rows)


def tables(document: Document) -> list[Table]:
    """Returns every table that has rows, in order."""
    found = [contestants(document)]
    for title, cell, note in (
        ("{title}{counted}", _rate, "In parentheses: how many times this rate Pinyon reaches. {note}"),
        ("{title}, processor time of the client, µs per operation", _processor, ""),
        ("{title}, latency of single calls, p50 / p99 in µs", _latency, ""),
    ):
        for group in GROUPS.values():
            if group.title:
                words = {"title": group.title, "counted": group.counted, "note": group.note}
                rows = group.rows(document)
                shown = table_of(document, title.format(**words), rows, group.label, cell, group.labels)
                found.append(Table(shown.title, shown.header, shown.rows, note.format(**words).strip()))
    found += [
        *_locks(document),
        _instructions(document),
        _system_calls(document),
        _memory(document),
        target_table(document),
        Table("Rows", ["row", "what it does"], [[row.name, row.about] for row in document.rows]),
        _gaps(document),
    ]
    return [table for table in found if table.rows]


def table_of(
    document: Document,
    title: str,
    rows: list[RowInfo],
    label: Callable[[RowInfo], str],
    cell: Cell,
    labels: str = "row",
) -> Table:
    """Returns a table of rows by contestants, or of contestants by rows where there are more contestants."""
    columns = _columns(document, rows)
    lines = [[label(row), *(_first(document, row.name, names, cell) for names in columns.values())] for row in rows]
    lines = [line for line in lines if any(text != NONE for text in line[1:])]
    header = [labels, *columns]
    if len(columns) > len(lines):
        header, *lines = [list(each) for each in zip(header, *lines)]
    return Table(title, header, [line for line in lines if any(text != NONE for text in line[1:])])


def _columns(document: Document, rows: list[RowInfo]) -> dict[str, list[str]]:
    """Returns the contestants by client; by themselves, where a row has several of one client."""
    names = participants(document, [row.name for row in rows])
    clients: dict[str, list[str]] = {}
    for name in names:
        clients.setdefault(name.removesuffix(f" {model_of(name)}"), []).append(name)
    for row in rows:
        if any(sum(bool(samples_of(document, row.name, name)) for name in each) > 1 for each in clients.values()):
            return {name: [name] for name in names}
    return clients


def _first(document: Document, row: str, names: list[str], cell: Cell) -> str:
    return next((text for name in names if (text := cell(document, row, name)) != NONE), NONE)


def _rate(document: Document, row: str, name: str) -> str:
    value = rate(document, row, name)
    if value is None:
        return NONE
    ours = ours_beside(document, row, name)
    base = ours and ours != name and rate(document, row, ours)
    return f"{value:,.0f} ({short(base / value)})" if base else f"{value:,.0f}"


def ours_beside(document: Document, row: str, name: str) -> str | None:
    """Returns Pinyon's contestant to compare another with: of its concurrency model, or the first where it has none."""
    ours = [each for each in document.present() if each.split()[0] == OURS and samples_of(document, row, each)]
    model = name.rpartition(" ")[2]
    return next((each for each in ours if model not in MODELS or each.endswith(model)), None)


def short(factor: float) -> str:
    """Returns a factor with as many digits as say something."""
    return f"{factor:.0f}" if factor >= 10 else f"{factor:.2f}" if factor >= 0.01 else f"{factor:.2g}"


def _processor(document: Document, row: str, name: str) -> str:
    value = processor_time(document, row, name)
    return f"{value:.2f}" if value else NONE


def _latency(document: Document, row: str, name: str) -> str:
    found = [sample.latency for sample in samples_of(document, row, name) if sample.latency]
    if not found:
        return NONE
    return " / ".join(f"{median(part(each) for each in found) * 1e6:,.0f}" for part in (middle_of, p99_of))


def contestants(document: Document) -> Table:
    """Version and configuration, or why not."""
    rows = [
        [each.name, each.version or NONE, f"absent: {each.absent}" if each.absent else each.configuration]
        for each in document.contestants
    ]
    return Table("Contestants", ["client", "version", "configuration"], rows)


def target_table(document: Document) -> Table:
    """Every target, whether it was met, and what was measured."""
    rows = [
        [each.row, each.wanted, "met" if each.met else "missed", each.measured, each.spread]
        for each in targets(document)
    ]
    note = (
        "spread: the lowest and the highest round; from five rounds on without the lowest and the highest. A target that "
        "covers many rows shows the worst of them."
    )
    return Table("Targets", ["row", "target", "result", "measured", "spread"], rows, note)


def _locks(document: Document) -> list[Table]:
    pairs, mutexes, sections, handovers = (
        lock_rows_of(document, workload) for workload in (PAIR, MUTEX, SECTION, HANDOVER)
    )
    counted = (
        ("commands that clients send", [*pairs, *mutexes, *sections, *handovers], commands_sent, 2),
        ("messages published", handovers, published, 2),
        ("Redis's time, µs", pairs, server_time, 1),
        ("Redis's reads from sockets, which are round trips", pairs, reads, 2),
    )
    found = [
        table_of(document, f"Locks, per cycle: {what}", rows, _without_prefix, _per_cycle(part, digits))
        for what, rows, part, digits in counted
    ]
    return [*found, _handovers(document)]


def _without_prefix(row: RowInfo) -> str:
    return row.name.partition(":")[2]


def _per_cycle(part: PerCycle, digits: int) -> Cell:
    def cell(document: Document, row: str, name: str) -> str:
        value = per_cycle(document, row, name, part)
        return NONE if value is None else f"{value:,.{digits}f}"

    return cell


def _handovers(document: Document) -> Table:
    """How long it takes from a release in one process until another process has the lock."""
    row = handover_row(document) or ""
    rows = []
    for name in participants(document, [row]):
        near, far = (_round_trips(document, name, link) for link in (NEAR, FAR))
        share = share_from_another(document, name)
        moved = NONE if share is None else f"{share:.2f}"
        rows.append([name, _latency(document, row, name), near, far, moved])
    note = (
        "p50 / p99, from a release to the next holder among 8 processes: in microseconds; in round trips of the floor; and "
        f"over a link of {2 * FAR_ONE_WAY_MILLISECONDS} ms (a delay proxy), in round trips over that link. moved: the share "
        "of grants that went to another waiting process; the process that released took the rest again."
    )
    header = ["client", "µs", "round trips", "far round trips", "moved"]
    return Table("Locks: hand-over between processes", header, rows, note)


def _round_trips(document: Document, name: str, link: Link) -> str:
    found = (in_round_trips(document, name, part, link) for part in (middle_of, p99_of))
    return " / ".join(f"{each.middle:.1f}" for each in found if each) or NONE


def _instructions(document: Document) -> Table:
    counted = document.instructions
    rows = [
        [operation, f"{count:,}", NONE if (most := at_most(operation)) is None else f"{most:,}"]
        for operation, count in (counted.counts.items() if counted else ())
    ]
    note = f"Counted under callgrind at commit {counted.commit}, in Pinyon's own process." if counted else ""
    return Table("Instructions per operation", ["operation", "instructions", "at most"], rows, note)


def _system_calls(document: Document) -> Table:
    rows = [
        [each.contestant, each.row, f"{sum(each.per_call.values()):.2f}"]
        + [", ".join(f"{name} {count:.2f}" for name, count in each.per_call.items() if abs(count) >= 0.005)]
        for each in document.syscalls
    ]
    return Table("System calls of the client, per call in steady state", ["client", "row", "total", "by name"], rows)


def _memory(document: Document) -> Table:
    rows = [
        [each.contestant, each.what, f"{each.before:,}", f"{each.after:,}", f"{each.after - each.before:+,}", each.note]
        for each in document.memory
    ]
    header = ["client", "what it did", "before", "after", "growth", "errors"]
    return Table("Resident memory of the client's process, kB", header, rows)


def _gaps(document: Document) -> Table:
    """Why cells are empty: one line for each contestant and reason."""
    rows: dict[tuple[str, str], list[str]] = {}
    for gap in document.gaps:
        rows.setdefault((gap.contestant, gap.reason), []).append(gap.row)
    lines = [[name, ", ".join(found), reason] for (name, reason), found in rows.items()]
    return Table("Not measured", ["client", "rows", "why"], lines)
