"""The plots of locks: cycles by number of names, hand-overs between processes, commands and server time per cycle."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..grids import model_of
from ..locks.measures import (
    PerCycle,
    commands_sent,
    handover_row,
    in_round_trips,
    keys_label,
    lock_rows_of,
    middle_of,
    p99_of,
    server_time,
)
from ..locks.rows import LOCK_MODELS
from ..locks.workloads import FAR, FAR_ONE_WAY_MILLISECONDS, MUTEX, NEAR, PAIR, SECTION, Link
from ..names import FLOOR
from ..results import Document, RowInfo
from .clients import Clients
from .drawing import Words, draw_bars, draw_curves, draw_latencies
from .findings import beside, standing, time_text
from .measures import Value, curves, percentiles, summary
from .plots import Plot, Section

PER_SECOND = "cycles per second"
KINDS = {
    MUTEX: ("10 workers", "names locked at once, n of 2n−1"),
    SECTION: ("100 workers", "names locked at once, n of 2n−1"),
    PAIR: ("one worker", "names locked at once"),
}


def lock_section(document: Document, clients: Clients) -> Section:
    """Returns the section of locks; it has no plots when there were no locks."""
    plots = [
        *_rates(document, clients),
        *_handover(document, clients),
        *_commands(document, clients),
        *_server_time(document, clients),
    ]
    return Section(
        "locks",
        "Locks",
        "A cycle acquires a lock of n names and releases it. Where several workers contend (seed 004's tests), each draws "
        "its n names from the same 2n−1, so only one worker holds a lock at a time. The axes of rates are logarithmic.",
        plots,
    )


def _rates(document: Document, clients: Clients) -> Iterator[Plot]:
    for workload, (kind, axis) in KINDS.items():
        rows = lock_rows_of(document, workload)
        found = curves(document, rows, lambda row: row.keys)
        for model in LOCK_MODELS:
            shown = [curve for curve in found if model_of(curve.contestant) == model and len(curve.points) > 1]
            if not any(curve.contestant != FLOOR for curve in shown):
                continue
            words = Words(f"locks-{workload}-{model}", f"locks, {kind}, {model}", PER_SECOND, axis)
            draw = partial(draw_curves, words, shown, clients, lambda keys: f"{keys:g}", logarithmic=True)
            ends = [row for row in rows if row.keys in (rows[0].keys, rows[-1].keys)]
            finding = " ".join(filter(None, (_sentence(document, clients, row, model) for row in ends)))
            title = f"Lock cycles per second by names, {kind}, {model}"
            yield Plot(words.key, title, draw, finding)


def _sentence(document: Document, clients: Clients, row: RowInfo, model: str) -> str:
    """Compares ours with the others of one concurrency model in a row."""
    among = [name for name in document.present() if name == FLOOR or model_of(name) == model]
    found = standing(document, clients, row.name, among)
    if found is None:
        return ""
    names = f"{row.keys} name{'s' * (row.keys > 1)}"
    return f"With {names}, {found.ours} completes {found.rate:,.0f} cycles per second{beside(found)}."


def _handover(document: Document, clients: Clients) -> Iterator[Plot]:
    row = next((row for row in document.rows if row.name == handover_row(document)), None)
    if row is None:
        return
    found = {name: span for name in document.present() if (span := percentiles(document, row.name, name))}
    if not found:
        return
    words = Words(
        "locks-handover", "locks: hand-over between 8 processes", "from a release to the next holder: median to p99", ""
    )
    draw = partial(draw_latencies, words, {(name, row.concurrency): span for name, span in found.items()}, clients)
    ours = next((name for name in found if clients.is_ours(name)), None)
    finding = ""
    if ours:
        span = found[ours]
        finding = (
            f"{row.concurrency} processes want one name. With {ours}, the next holder has it {time_text(span.median.middle)} "
            f"after the release begins (median), and within {time_text(span.p99.middle)} in 99 of 100 cases"
        )
        if near := _round_trips(document, ours, NEAR):
            finding += f". In round trips that is {near}"
        if far := _round_trips(document, ours, FAR):
            finding += f"; {far} over a link of {2 * FAR_ONE_WAY_MILLISECONDS} ms"
        others = [name for name in found if clients.is_other(name)]
        if others:
            best = min(others, key=lambda name: found[name].median.middle)
            finding += f". The fastest other client is {best}: {time_text(found[best].median.middle)} (median)"
        finding += "."
    yield Plot(words.key, "Time from a release in one process to the next holder", draw, finding)


def _round_trips(document: Document, name: str, link: Link) -> str:
    found = (in_round_trips(document, name, part, link) for part in (middle_of, p99_of))
    return " and ".join(f"{each.middle:.1f}" for each in found if each)


def _commands(document: Document, clients: Clients) -> Iterator[Plot]:
    rows = lock_rows_of(document, MUTEX)
    for row in {rows[0].name: rows[0], rows[-1].name: rows[-1]}.values() if rows else []:
        values = _values(document, row, commands_sent)
        if values:
            label = keys_label(row)
            key = f"locks-commands-{label.replace('/', '-')}"
            words = Words(
                key, f"locks, 10 workers, {label} names: commands", "commands that clients send per cycle", "commands"
            )
            draw = partial(draw_bars, words, values, clients)
            finding = _least(values, clients, "sends {:.2f} commands per cycle")
            yield Plot(words.key, f"Commands per cycle, 10 workers, {label} names", draw, finding)


def _server_time(document: Document, clients: Clients) -> Iterator[Plot]:
    rows = lock_rows_of(document, PAIR)
    values = _values(document, rows[0], server_time) if rows else {}
    if values:
        words = Words(
            "locks-server", "locks, one worker, 1 name: the server", "microseconds of Redis per cycle", "microseconds"
        )
        finding = _least(values, clients, "costs Redis {:.1f} µs per cycle")
        yield Plot(words.key, "Server time per cycle", partial(draw_bars, words, values, clients), finding)


def _values(document: Document, row: RowInfo, part: PerCycle) -> dict[str, Value]:
    found: dict[str, list[float]] = {}
    for work in document.server_work:
        if work.row == row.name and work.cycles and not document.gap(row.name, work.contestant):
            found.setdefault(work.contestant, []).append(part(work))
    return {name: value for name, each in found.items() if (value := summary(each))}


def _least(values: dict[str, Value], clients: Clients, says: str) -> str:
    ours = min((name for name in values if clients.is_ours(name)), key=lambda name: values[name].middle, default=None)
    if ours is None:
        return ""
    sentence = f"{ours} {says.format(values[ours].middle)}"
    others = [name for name in values if clients.is_other(name)]
    if others:
        least = min(others, key=lambda name: values[name].middle)
        sentence += f"; {least}, the best of the others, {values[least].middle:.1f}"
    return sentence + "."
