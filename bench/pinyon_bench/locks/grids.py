"""The tables of locks as data, made only from a result document."""

from __future__ import annotations

from statistics import median

from ..compare import samples_of
from ..grids import NONE, Grid, with_rounds
from ..results import Document, RowInfo
from .measures import (
    PerCycle,
    commands_sent,
    handover_row,
    in_round_trips,
    keys_label,
    latencies,
    lock_rows_of,
    middle_of,
    p99_of,
    per_cycle,
    published,
    reads,
    server_time,
    share_from_another,
)
from .workloads import (
    FAR,
    FAR_ONE_WAY_MILLISECONDS,
    HANDOVER,
    MUTEX,
    NEAR,
    PAIR,
    PING,
    SECTION,
    Link,
    group_of,
)

#: The commands that a cycle of the seed's second test sends besides those of the lock.
SECTION_COMMANDS = 4
WAITING = "Locks: waiting, and hand-over between processes"
WORK = "Locks: Redis's work per cycle"
ROW_LABELS: dict[str, str] = {MUTEX: "test 1", SECTION: "test 2", HANDOVER: "processes"}
PING_ROWS = (group_of(PING), group_of(PING, FAR))
MILLISECONDS, MICROSECONDS = 1e3, 1e6


def waiting_grid(document: Document) -> Grid:
    """How long ten workers wait for one name, and how long a hand-over to another process takes."""
    one = next((row.name for row in lock_rows_of(document, MUTEX) if row.keys == 1), "")
    between = handover_row(document) or ""
    names = [name for name in document.present() if any(samples_of(document, row, name) for row in (one, between))]
    cells = [
        [name, *_times(document, one, name, MILLISECONDS, 2), *_times(document, between, name, MICROSECONDS, 0)]
        + [_round_trips(document, name, NEAR), _round_trips(document, name, FAR), _share(document, name)]
        for name in names
    ]
    header = ["client", "wait p50 ms", "wait p99 ms", "next p50 µs", "next p99 µs", "round trips", "far trips", "moved"]
    note = (
        "wait: until one of 10 workers acquires the one name they share (test 1). next: from a release to the next holder, "
        "among 8 processes. round trips: the same time, p50 and p99, in round trips of the floor. far trips: the same over "
        f"a link of {2 * FAR_ONE_WAY_MILLISECONDS} ms (a delay proxy), in round trips over that link. moved: the share of "
        "grants that went to another waiting process; the process that released took the rest again."
    )
    return with_rounds(document, Grid(WAITING, header, cells, note), [one, between])


def _times(document: Document, row: str, name: str, unit: float, digits: int) -> list[str]:
    found = (latencies(document, row, name, part) for part in (middle_of, p99_of))
    return [f"{median(values.values()) * unit:,.{digits}f}" if values else NONE for values in found]


def _round_trips(document: Document, name: str, link: Link) -> str:
    found = [in_round_trips(document, name, part, link) for part in (middle_of, p99_of)]
    return " / ".join(f"{each.middle:.1f}" for each in found if each) or NONE


def _share(document: Document, name: str) -> str:
    share = share_from_another(document, name)
    return NONE if share is None else f"{share:.2f}"


def commands_grid(document: Document) -> Grid:
    """How many commands clients send per cycle, and how many messages wake others."""
    rows = [row for workload in (PAIR, MUTEX, SECTION, HANDOVER) for row in lock_rows_of(document, workload)]
    rows = [row for row in rows if any(work.row == row.name for work in document.server_work)]
    names = _counted(document)
    between = handover_row(document) or ""
    cells = [
        [name, *_figures(document, rows, name, commands_sent, 2), _figure(document, between, name, published, 2)]
        for name in names
    ]
    note = (
        "From Redis's command statistics around the timed cells, without the commands that scripts call. Each cycle of "
        f"test 2 sends {SECTION_COMMANDS} more commands. PUBLISH: messages per cycle of the 8 processes."
    )
    title = "Locks: commands that clients send per cycle"
    grid = Grid(title, ["client", *(_row_label(row) for row in rows), "PUBLISH"], cells, note)
    return with_rounds(document, grid, [row.name for row in rows])


def server_grid(document: Document) -> Grid:
    """How long Redis works for an uncontended cycle, and how often it reads from a socket."""
    rows = lock_rows_of(document, PAIR)
    cells = [
        [name, *_figures(document, rows, name, server_time, 1), *_figures(document, rows, name, reads, 2)]
        for name in _counted(document)
    ]
    cells = [line for line in cells if any(cell != NONE for cell in line[1:])]
    header = ["client", *(f"µs {keys_label(row)}" for row in rows), *(f"reads {keys_label(row)}" for row in rows)]
    note = (
        "Per uncontended cycle and number of names: microseconds in its commands, and reads from sockets (round trips)."
    )
    return with_rounds(document, Grid(WORK, header, cells, note), [row.name for row in rows])


def _counted(document: Document) -> list[str]:
    counted = {work.contestant for work in document.server_work if work.row not in PING_ROWS}
    return [name for name in document.present() if name in counted]


def _row_label(row: RowInfo) -> str:
    label = ROW_LABELS.get(row.operation, "alone")
    return label if row.operation == HANDOVER else f"{label} {keys_label(row)}"


def _figure(document: Document, row: str, name: str, part: PerCycle, digits: int) -> str:
    value = per_cycle(document, row, name, part)
    return NONE if value is None else f"{value:,.{digits}f}"


def _figures(document: Document, rows: list[RowInfo], name: str, part: PerCycle, digits: int) -> list[str]:
    return [_figure(document, row.name, name, part, digits) for row in rows]


def lock_grids(document: Document) -> list[Grid]:
    """Returns the tables of what only locks have."""
    return [waiting_grid(document), commands_grid(document), server_grid(document)]
