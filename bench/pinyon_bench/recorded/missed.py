"""Why targets are missed: each reason is written once, and its figures come from the tables of the same record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..grids import NONE, Grid
from ..locks.grids import WAITING, WORK
from ..locks.workloads import FAR_ONE_WAY_MILLISECONDS
from ..names import (
    ANYEVENT,
    ASYNC,
    ASYNCIO,
    BARE,
    CORO,
    EVENTMACHINE,
    FAST,
    FLOOR,
    GEVENT,
    OURS,
    PERL,
    UVLOOP,
)
from ..perl.rows import SHIM
from .medians import Figures
from .record import MISSED, TARGETS, Record

UNKNOWN = "Not explained yet."
#: Of the instructions of an operation in a greenlet, or in one of 100 coroutines of Perl's, the core by itself takes less; a test compares it with the counts.
CORE_SHARE = 0.4
#: The core takes fewer instructions for a get or a set; a test compares it with the counts.
CORE_INSTRUCTIONS = 3000
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
    found: dict[Reason | None, list[list[str]]] = {}
    for line in record.grid(TARGETS).rows:
        if line[2] == MISSED:
            found.setdefault(_reason(f"{line[0]}: {line[1]}"), []).append(line)
    return [Missed(lines, _why(record, figures, reason, lines)) for reason, lines in found.items()]


def _reason(target: str) -> Reason | None:
    return next((reason for pattern, reason in REASONS.items() if fnmatchcase(target, pattern)), None)


def _why(record: Record, figures: Figures, reason: Reason | None, lines: list[list[str]]) -> str:
    if reason is None:
        return UNKNOWN
    try:
        return reason(record, figures, list(dict.fromkeys(line[0] for line in lines)))
    except KeyError:
        return UNKNOWN


def _small_value(_: Record, figures: Figures, rows: list[str]) -> str:
    ours, floor = (_span(figures.processor[row, name] for row in rows) for name in (OURS, FLOOR))
    share = _span((figures.processor[row, FLOOR] / figures.processor[row, OURS] for row in rows), "{:.0%}")
    why = (
        "A call is two system calls, a send and a receive. The floor does little else: it makes no Python object, checks "
        f"no reply and has no deadline. It takes {floor} µs of processor time, {share} of Pinyon's {ours}. The rest is the "
        "timer that a deadline arms in the kernel for each receive, releasing the GIL and acquiring it again, Python's "
        f"call, and fewer than {CORE_INSTRUCTIONS:,} instructions of the core ([counted](bench/instructions.json))."
    )
    if all((row, BARE) in figures.rates for row in rows):
        bare = _span(figures.rates[row, BARE].ratio or 0.0 for row in rows)
        why += f" A bare socket in Python reaches {bare} of Pinyon's rate."
    return why


def _large_get(_: Record, figures: Figures, rows: list[str]) -> str:
    row = rows[0]
    wall, busy = 1e6 / figures.rates[row, OURS].rate, figures.processor[row, OURS]
    return (
        f"Of the {wall:.0f} µs of a get, Pinyon's process takes {busy:.1f} and the floor's {figures.processor[row, FLOOR]:.1f}; "
        "most of the rest is the server's, on the same core."
    )


def _many_greenlets(_: Record, figures: Figures, rows: list[str]) -> str:
    fewer, more = (
        [_span(figures.processor[f"{row}:{greenlets}", name] for row in rows) for name in (f"{OURS} {GEVENT}", FLOOR)]
        for greenlets in (64, 256)
    )
    return (
        f"An operation takes {fewer[0]} µs of processor time with 64 greenlets and {more[0]} with 256; the floor, which has "
        f"no greenlets, {fewer[1]} and {more[1]}. A waiting greenlet keeps a copy of its stack: 256 of them and the items "
        "probably no longer fit the processor's second-level cache."
    )


def _greenlets(_: Record, figures: Figures, rows: list[str]) -> str:
    busy = _span(figures.processor[row, f"{OURS} {GEVENT}"] for row in rows)
    least = _span(figures.processor[row, FLOOR] for row in rows)
    return (
        f"The floor, which has no Python and no greenlets, takes {least} µs of processor time per operation, Pinyon {busy}. The "
        f"core by itself needs less than {CORE_SHARE:.0%} of Pinyon's instructions ([counted](bench/instructions.json)); "
        "Python's call and the greenlet switch are the rest."
    )


def _tasks(_: Record, figures: Figures, rows: list[str]) -> str:
    ours = _span(figures.processor[row, f"{OURS} {ASYNCIO}"] for row in rows)
    faster = _span(figures.processor[row.replace(ASYNCIO, UVLOOP), f"{OURS} {UVLOOP}"] for row in rows)
    return (
        f"asyncio's own event loop is written in Python: an operation takes {ours} µs of processor time on it, and {faster} "
        "on uvloop."
    )


def _tasks_on_uvloop(_: Record, figures: Figures, rows: list[str]) -> str:
    ours = f"{OURS} {UVLOOP}"
    wall = _span(1e6 / figures.rates[row, ours].rate for row in rows)
    busy, least = (_span(figures.processor[row, name] for row in rows) for name in (ours, FLOOR))
    return (
        f"The server works on the same core. Of the {wall} µs of an operation, Pinyon's process takes {busy}, where the floor, "
        f"which has no Python and no tasks, takes {least}; most of the rest is the server's."
    )


def _fibers_of_async(_: Record, figures: Figures, rows: list[str]) -> str:
    busy = _span(figures.processor[row, f"{OURS} {ASYNC}"] for row in rows)
    return (
        "When this was measured, async 1 wrote a byte into a pipe of its own for each fiber that was to go on: nearly all of "
        "the system calls. Now fibers go on without it ([counted](bench/instructions.json)). An operation took "
        f"{busy} µs of processor time."
    )


def _fibers_of_eventmachine(_: Record, figures: Figures, rows: list[str]) -> str:
    busy = _span(figures.processor[row, f"{OURS} {EVENTMACHINE}"] for row in rows)
    return (
        "When this was measured, each fiber went on by EventMachine's `next_tick`, which asks for the process's number and "
        "writes a byte into a pipe: nearly all of the system calls. Now all fibers of a turn go on without it "
        f"([counted](bench/instructions.json)). An operation took {busy} µs of processor time."
    )


def _perl_one_key(_: Record, figures: Figures, rows: list[str]) -> str:
    ours, other = (_span(figures.processor[row, f"{name} {PERL}"] for row in rows) for name in (OURS, FAST))
    floor = _span(figures.processor[row, FLOOR] for row in rows)
    return (
        f"A call is two system calls in all of them. Pinyon takes {ours} µs of processor time, {FAST} {other}, and the floor, "
        f"which has no Perl, {floor}."
    )


def _perl_many_keys(_: Record, figures: Figures, rows: list[str]) -> str:
    row = rows[0]
    ours, other, floor = (figures.processor[row, name] for name in (f"{OURS} {PERL}", f"{FAST} {PERL}", FLOOR))
    server = 1e6 / figures.rates[row, f"{OURS} {PERL}"].rate - ours
    return (
        f"A key takes {ours:.2f} µs of Pinyon's processor time and {other:.2f} of {FAST}'s; about {server:.2f} more are the "
        f"server's, on the same core. The floor, which makes no strings of Perl's, takes {floor:.2f}. The library "
        "keeps for each key what the answer is compared with, and what another attempt would need if a server failed; Perl's "
        "part is its strings and the hash ([counted](bench/instructions.json), `c:get_many` and `perl:get_multi`)."
    )


def _perl_many_keys_stored(_: Record, figures: Figures, rows: list[str]) -> str:
    row = rows[0]
    ours, other, floor = (figures.processor[row, name] for name in (f"{OURS} {PERL}", f"{FAST} {PERL}", FLOOR))
    wall = 1e6 / figures.rates[row, f"{OURS} {PERL}"].rate
    return (
        f"Of the {wall:.2f} µs of a key, Pinyon's process takes {ours:.2f} and the server, on the same core, most of the rest; "
        f"{FAST} takes {other:.2f} of processor time and the floor, which has no Perl, {floor:.2f}."
    )


def _perl_not_waited_for(_: Record, figures: Figures, rows: list[str]) -> str:
    row = rows[0]
    shim, ours, other = (figures.processor[row, f"{name} {PERL}"] for name in (SHIM, OURS, FAST))
    return (
        f"Both send each command by itself. {FAST} is written in C. Its replacement hands plain commands to Pinyon's batches in "
        f"XS, others in Perl code, and a batch keeps for each what its reply is compared with: {shim:.1f} µs of processor time "
        f"for a command, where {FAST} takes {other:.1f}. Pinyon's own `quiet`, which sends many commands at a time, takes "
        f"{ours:.1f}."
    )


def _perl_coroutines(_: Record, figures: Figures, rows: list[str]) -> str:
    rows = [row.split()[0] for row in rows]
    coro, callbacks = (_span(figures.processor[row, f"{OURS} {model}"] for row in rows) for model in (CORO, ANYEVENT))
    floor = _span(figures.processor[row, FLOOR] for row in rows)
    wall = _span(1e6 / figures.rates[row, f"{OURS} {CORO}"].rate for row in rows)
    return (
        f"Of the {wall} µs of an operation, Pinyon's process takes {coro}, and most of the rest is the server's, on the same "
        f"core. The floor, which has no Perl and no coroutines, takes {floor}, and Pinyon's callbacks, without coroutines, "
        f"{callbacks}. The library by itself needs less than {CORE_SHARE:.0%} of its instructions "
        "([counted](bench/instructions.json)); Perl's calls, its strings, and Coro's change of coroutines are the rest."
    )


def _perl_callbacks(_: Record, figures: Figures, rows: list[str]) -> str:
    rows = [row.split()[0] for row in rows]
    ours = f"{OURS} {ANYEVENT}"
    wall = _span(1e6 / figures.rates[row, ours].rate for row in rows)
    busy, least = (_span(figures.processor[row, name] for row in rows) for name in (ours, FLOOR))
    return (
        f"The server works on the same core. Of the {wall} µs of an operation, Pinyon's process takes {busy}, where the floor, "
        f"which has no Perl and no callbacks, takes {least}; most of the rest is the server's."
    )


def _perl_far(_: Record, figures: Figures, rows: list[str]) -> str:
    one = [row.split()[0].rpartition(":")[0] + ":1" for row in rows]
    trip = _span((1e3 / figures.rates[row, f"{OURS} {CORO}"].rate for row in one), "{:.0f}")
    hundred = _span(
        (figures.rates[row.split()[0], FLOOR].rate / figures.rates[first, FLOOR].rate for row, first in zip(rows, one)),
        "{:.0f}",
    )
    return (
        f"100 operations take one round trip of {trip} ms and, before and after it, the time in which both sides work on all "
        f"of them. The floor's 100 are {hundred} times as fast as its one."
    )


def _large_values_at_once(_: Record, figures: Figures, __: list[str]) -> str:
    ten = "local:get:100KB:10"
    ours, other = figures.processor[ten, f"{OURS} {ASYNCIO}"], figures.processor[ten, f"emcache {ASYNCIO}"]
    return (
        "100 coroutines ask for 10 MB at once over one connection; nearly all of the extra time is the kernel's. emcache's "
        f"two connections have at most two replies under way. With 10 coroutines Pinyon takes {ours:.1f} µs, emcache "
        f"{other:.1f}."
    )


def _lock_and_floor(record: Record, _: Figures, __: list[str]) -> str:
    floor, ours = (_cell(record.grid(WORK), client, "µs 1") for client in (FLOOR, f"{OURS} script"))
    return (
        f"The floor's two scripts keep neither a queue nor tokens: Redis works {floor} µs for a cycle of the floor, and "
        f"{ours} for one of Pinyon's."
    )


def _lock_without_scripts(_: Record, __: Figures, ___: list[str]) -> str:
    return (
        "The benchmark empties the server before each measurement, so the first lock finds no counter of tokens there, and "
        "begins one at the server's time: two more round trips. A measurement of some hundred cycles shows them."
    )


def _lock_in_other_languages(record: Record, figures: Figures, rows: list[str]) -> str:
    floor, ours = (_cell(record.grid(WORK), client, "µs 1") for client in (FLOOR, f"{OURS} script"))
    row = rows[0].split()[0]
    cycles = [
        1e6 / figures.rates[row, name].rate for name in (FLOOR, *(f"{OURS} script {each.split()[1]}" for each in rows))
    ]
    return (
        f"The floor's two scripts keep neither a queue nor tokens: Redis works {floor} µs for a cycle of the floor, and "
        f"{ours} for one of Pinyon's. A cycle of the floor takes {cycles[0]:.0f} µs, one of Pinyon's {_span(cycles[1:], '{:.0f}')}; "
        "besides Redis's work, that is what the client keeps of a lock, such as its token and its renewal, and the objects "
        "and calls of the language."
    )


def _handover(record: Record, _: Figures, __: list[str]) -> str:
    near, far = (_cell(record.grid(WAITING), f"{OURS} script", column) for column in ("next p50 µs", "far trips"))
    why = (
        "On one core a hand-over is the processor time of the server and of two clients, one after the other: "
        f"{near} µs. A round trip of the floor is one small reply."
    )
    if far == NONE:
        return why
    return f"{why} Over a link of {2 * FAR_ONE_WAY_MILLISECONDS} ms it takes {far} round trips (p50 / p99)."


def _processor_times(_: Record, figures: Figures, rows: list[str]) -> str:
    """What is known of every row: the processor time of Pinyon and of the floor, or of the cheapest other client."""
    found = [_times_in(figures, *row.split()) for row in rows]
    where = "" if len(found) == 1 else "In the order of the rows: "
    return f"{where}{'; '.join(found)}. The server's work, on the same core, is the same for all of them."


def _times_in(figures: Figures, row: str, model: str = "") -> str:
    named = {name: time for (each, name), time in figures.processor.items() if each == row}
    ours = next(name for name in named if name.split()[0] == OURS and name.endswith(model)) if named else ""
    if not ours:
        raise KeyError(row)
    others = {name: time for name, time in named.items() if name.split()[0] != OURS and name != BARE}
    least = FLOOR if FLOOR in others else min(others, key=others.__getitem__, default="")
    beside = f" and {'the ' * (least == FLOOR)}{least} {others[least]:.2f}" if least else ""
    return f"an operation takes {named[ours]:.2f} µs of Pinyon's processor time{beside}"


def _several_servers(_: Record, figures: Figures, rows: list[str]) -> str:
    row = rows[0].split()[0]
    one = f"{row.rpartition(':')[0]}:1"
    ours, floor = ([figures.processor[each, name] for each in (one, row)] for name in (OURS, FLOOR))
    return (
        f"A key from one server takes {ours[0]:.2f} µs of Pinyon's processor time and from several {ours[1]:.2f}; of the "
        f"floor's {floor[0]:.2f} and {floor[1]:.2f}."
    )


def _span(values: Iterable[float], shown: str = "{:.2f}") -> str:
    """Returns the least and the greatest of some values, or the only one."""
    texts = list(dict.fromkeys(shown.format(value) for value in sorted(values)))
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def _cell(grid: Grid, label: str, column: str) -> str:
    return {line[0]: dict(zip(grid.header, line)) for line in grid.rows}[label][column]


#: By a pattern of `ROW: target`; the first that fits.
REASONS: dict[str, Reason] = {
    "[gs]et:36B: at least * of the floor's rate": _small_value,
    "get:100KB: at least * of the floor's rate": _large_get,
    "multiget:* to :1: at least * of the floor's own ratio": _several_servers,
    "gevent:*: at least * of the floor's rate": _greenlets,
    "gevent:*: never slower with more greenlets; worst step: 64 to 256": _many_greenlets,
    "asyncio:*: at least * of the floor's rate": _tasks,
    "uvloop:*: at least * of the floor's rate": _tasks_on_uvloop,
    "ruby:async:*:64: at most * system calls *": _fibers_of_async,
    "ruby:eventmachine:*:64: at most * system calls *": _fibers_of_eventmachine,
    "perl:[gs]et:*: at least * of the floor's rate": _perl_one_key,
    "perl:multiget:*: *": _perl_many_keys,
    "perl:multiset:*: *": _perl_many_keys_stored,
    f"perl:setq:plain: CPU per operation at most {FAST}'s": _perl_not_waited_for,
    "perl:loops:local:* anyevent: at least * of the floor's rate": _perl_callbacks,
    "perl:loops:local:* coro: at least * of the floor's rate": _perl_coroutines,
    "perl:loops:slow:* coro: at least * times one coroutine": _perl_far,
    "local: CPU *get:100KB:100 *": _large_values_at_once,
    "locks:pair:1: at least * of the floor's rate": _lock_and_floor,
    "locks:pair:1: at most * times the floor's time of the server": _lock_and_floor,
    "locks:pair:1 *: at least * of the floor's rate": _lock_in_other_languages,
    "locks:pair:* pure: 1 round trip to lock, * to unlock": _lock_without_scripts,
    "locks:handover:*: * round trips *": _handover,
    "*: at least * of the floor's rate": _processor_times,
    "*: CPU per operation at most *": _processor_times,
}
