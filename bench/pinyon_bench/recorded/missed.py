"""Why targets are missed: each reason is written once, and its figures come from the tables of the same record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..grids import NONE, Grid
from ..locks.grids import WAITING
from ..locks.workloads import FAR_ONE_WAY_MILLISECONDS
from ..names import ASYNCIO, BARE, FLOOR, GEVENT, OURS, PEER, UVLOOP
from .medians import Figures
from .record import MISSED, TARGETS, Record

UNKNOWN = "Not explained yet."
#: Of the instructions of a greenlet's operation the core by itself takes less; a test compares it with the counts.
CORE_SHARE = 0.4
#: Gives the reason for some rows, from the record and its figures; raises KeyError when a figure is not in the tables.
Reason = Callable[[Record, Figures, list[str]], str]


@dataclass(frozen=True)
class Missed:
    """Missed targets that have one reason: the rows of the table of targets, and why they are missed."""

    lines: list[list[str]]
    why: str


def missed_targets(record: Record) -> list[Missed]:
    """Returns the missed targets of a record by reason; the reason is UNKNOWN where none is written or a figure lacks."""
    figures = Figures(record)
    found: dict[str, list[list[str]]] = {}
    for line in record.grid(TARGETS).rows:
        if line[2] == MISSED:
            found.setdefault(_pattern(f"{line[0]}: {line[1]}"), []).append(line)
    return [Missed(lines, _why(record, figures, pattern, lines)) for pattern, lines in found.items()]


def _pattern(target: str) -> str:
    return next((pattern for pattern in REASONS if fnmatchcase(target, pattern)), "")


def _why(record: Record, figures: Figures, pattern: str, lines: list[list[str]]) -> str:
    if not pattern:
        return UNKNOWN
    try:
        return REASONS[pattern](record, figures, list(dict.fromkeys(line[0] for line in lines)))
    except KeyError:
        return UNKNOWN


def _small_get(_: Record, figures: Figures, rows: list[str]) -> str:
    ours, floor = (_span(figures.processor[row, name] for row in rows) for name in (OURS, FLOOR))
    bare = _span(figures.rates[row, BARE].ratio or 0.0 for row in rows)
    return (
        f"The floor makes no Python object and checks no reply: it takes {floor} µs of processor time, Pinyon {ours}. "
        f"A bare socket in Python reaches {bare} of Pinyon's rate."
    )


def _large_get(_: Record, figures: Figures, rows: list[str]) -> str:
    row = rows[0]
    times = figures.rates[row, FLOOR].rate / figures.rates[row, PEER].rate
    wall, busy = 1e6 / figures.rates[row, OURS].rate, figures.processor[row, OURS]
    return (
        f"The floor itself is {times:.2f} times {PEER}. Of the {wall:.0f} µs of a get, Pinyon's process takes {busy:.0f}; "
        "most of the rest is the server's, on the same core."
    )


def _greenlets(_: Record, figures: Figures, rows: list[str]) -> str:
    shares = _span(
        (figures.rates[row, FLOOR].rate / figures.rates[row, f"{PEER} {GEVENT}"].rate for row in rows), "{:.0f}"
    )
    busy = _span(figures.processor[row, f"{OURS} {GEVENT}"] for row in rows)
    least = _span(figures.processor[row, FLOOR] for row in rows)
    return (
        f"The floor, which has no Python and no greenlets, is {shares} times {PEER}. It takes {least} µs of processor time "
        f"per operation, Pinyon {busy}. The core by itself needs less than {CORE_SHARE:.0%} of Pinyon's instructions "
        "([counted](bench/instructions.json)); Python's call and the greenlet switch are the rest."
    )


def _tasks(_: Record, figures: Figures, rows: list[str]) -> str:
    ours = _span(figures.processor[row, f"{OURS} {ASYNCIO}"] for row in rows)
    faster = _span(figures.processor[row.replace(ASYNCIO, UVLOOP), f"{OURS} {UVLOOP}"] for row in rows)
    return (
        f"asyncio's own event loop is written in Python: an operation takes {ours} µs of processor time on it, and {faster} "
        "on uvloop."
    )


def _large_values_at_once(_: Record, figures: Figures, __: list[str]) -> str:
    ten = "local:get:100KB:10"
    ours, other = figures.processor[ten, f"{OURS} {ASYNCIO}"], figures.processor[ten, f"emcache {ASYNCIO}"]
    return (
        "100 coroutines ask for 10 MB at once over one connection; nearly all of the extra time is the kernel's. emcache's "
        f"two connections have at most two replies under way. With 10 coroutines Pinyon takes {ours:.1f} µs, emcache "
        f"{other:.1f}."
    )


def _lock(_: Record, figures: Figures, rows: list[str]) -> str:
    floor, other = figures.rates[rows[0], FLOOR].rate, figures.rates[rows[0], "redis-py"].rate
    return f"The floor, two minimal scripts without queue or tokens, is itself only {floor / other:.1f} times redis-py."


def _handover(record: Record, _: Figures, __: list[str]) -> str:
    near, far = (_cell(record.grid(WAITING), f"{OURS} script", column) for column in ("next p50 µs", "far trips"))
    why = (
        "On one core a hand-over is the processor time of the server and of two clients, one after the other: "
        f"{near} µs. A round trip of the floor is one small reply."
    )
    if far == NONE:
        return why
    return f"{why} Over a link of {2 * FAR_ONE_WAY_MILLISECONDS} ms it takes {far} round trips (p50 / p99)."


def _span(values: Iterable[float], shown: str = "{:.2f}") -> str:
    """Returns the least and the greatest of some values, or the only one."""
    texts = list(dict.fromkeys(shown.format(value) for value in sorted(values)))
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def _cell(grid: Grid, label: str, column: str) -> str:
    return {line[0]: dict(zip(grid.header, line)) for line in grid.rows}[label][column]


#: By a pattern of `ROW: target`.
REASONS: dict[str, Reason] = {
    "[gs]et:36B: at least * times floor": _small_get,
    "get:100KB: at least * times pylibmc": _large_get,
    "gevent:*: at least * times *": _greenlets,
    "asyncio:*: at least * times *": _tasks,
    "local: CPU *get:100KB:100 *": _large_values_at_once,
    "locks:pair:1: at least * times redis-py": _lock,
    "locks:handover:*: * round trips *": _handover,
}
