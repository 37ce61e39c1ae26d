"""The kinds of targets of caches; rows and groups declare which of them Pinyon must reach.

A target is a share of the floor's rate at the same concurrency, processor time per operation, system calls, instructions, or
a ratio of two rows of Pinyon's own. So another processor hardly moves it. How many times the rate of another client Pinyon
reaches depends on the processor: tables and cards show it, and no target promises it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .compare import Ratio, processor_time, processor_times, rate_ratio, rates, ratio, samples_of
from .declaration import Goal
from .names import BARE, BLOCKING, FLOOR, GEVENT, NEAR_CLIENT, OURS, contestant_name, is_other
from .results import Document, RowInfo, Target

#: Below this ratio a rate has fallen, however wide the spread.
FALLEN = 0.95


def reached(text: str, found: Ratio | None, wanted: float) -> Iterator[Target]:
    """Gives the target that a ratio is at least `wanted`; none when it was not measured."""
    if found:
        yield Target(text, f"{found.middle:.3f}", found.middle >= wanted, spread_of(found))


def not_exceeded(text: str, found: Ratio | None, most: float) -> Iterator[Target]:
    """Gives the target that a ratio is at most `most`; none when it was not measured."""
    if found:
        yield Target(text, f"{found.middle:.3f}", found.middle <= most, spread_of(found))


def spread_of(found: Ratio) -> str:
    """Returns the lowest and highest ratio as shown."""
    return f"{found.low:.2f}–{found.high:.2f}"


def floor_share(wanted: float, model: str = BLOCKING, ours: str = OURS) -> Goal:
    """Our rate is at least `wanted` of the floor's, in the same row and so at the same concurrency."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        found = rate_ratio(document, row, contestant_name(ours, model), FLOOR)
        yield from reached(f"{within(row, model)}: at least {wanted:g} of the {FLOOR}'s rate", found, wanted)

    return goal


def within(row: str, model: str) -> str:
    """Returns a row's name, with the concurrency model where the row has several."""
    return row if model == BLOCKING or model in row.split(":") else f"{row} {model}"


def times_without_memory(wanted: float, model: str = BLOCKING) -> Goal:
    """With hot keys in memory, our rate is at least `wanted` times that without, in the same row."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        found = rate_ratio(document, row, contestant_name(NEAR_CLIENT, model), contestant_name(OURS, model))
        yield from reached(
            f"{within(row, model)}: at least {wanted:g} times the rate without hot keys in memory", found, wanted
        )

    return goal


def bare_share(wanted: float) -> Goal:
    """Our rate is at least `wanted` of a bare socket's."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        text = f"{row}: at least {wanted:g} of the rate of a {BARE} (Python)"
        yield from reached(text, rate_ratio(document, row, OURS, BARE), wanted)

    return goal


def at_least_row(
    wanted: float,
    other: str,
    words: str = "",
    models: tuple[str, ...] = (BLOCKING,),
    base: str = BLOCKING,
    ours: str = OURS,
) -> Goal:
    """Our rate is at least `wanted` times that in another row, of our client in the model `base`; `words` say which."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        rates_there = rates(document, other.replace("*", row.rpartition(":")[0]), contestant_name(ours, base))
        for model in models:
            found = ratio(rates(document, row, contestant_name(ours, model)), rates_there)
            yield from reached(f"{within(row, model)}: at least {wanted:g} {words or f'times {other}'}", found, wanted)

    return goal


def keeps(wanted: float, one: str) -> Goal:
    """From one server to several, our rate changes at least `wanted` times as well as the floor's."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        ours, floor = (ratio(rates(document, row, name), rates(document, one, name)) for name in (OURS, FLOOR))
        if ours and floor:
            kept = ours.middle / floor.middle
            text = f"{row} to :{one.rpartition(':')[2]}: at least {wanted:g} of the {FLOOR}'s own ratio"
            yield Target(text, f"{kept:.3f}", kept >= wanted)

    return goal


def processor_at_most(other: str, model: str = BLOCKING, ours: str = OURS) -> Goal:
    """Our processor time per operation is at most another client's."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        names = (contestant_name(ours, model), contestant_name(other, model))
        found = ratio(*(processor_times(document, row, name) for name in names))
        yield from not_exceeded(f"{within(row, model)}: CPU per operation at most {other}'s", found, 1.0)

    return goal


def exactly_system_calls(wanted: int) -> Goal:
    """A call takes exactly `wanted` system calls."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        for count in _system_calls(document, row):
            text = f"{row}: exactly {wanted} system calls"
            yield Target(text, f"{count:.2f}", round(count, 1) == wanted)

    return goal


def at_most_system_calls(wanted: float, model: str = "", digits: int = 9) -> Goal:
    """An operation takes at most `wanted` system calls, to so many digits; in any concurrency model, or in one."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        for count in _system_calls(document, row, model):
            text = f"{within(row, model or BLOCKING)}: at most {wanted:g} system calls per operation"
            yield Target(text, f"{count:.3f}", round(count, digits) <= wanted)

    return goal


def user_time_at_most(share: float, words: str, other: str, model: str) -> Goal:
    """Our time in user code per operation is at most this share of another client's; `words` say which."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        ours, theirs = (
            {
                each.round: each.user / each.operations
                for each in samples_of(document, row, contestant_name(name, model))
            }
            for name in (OURS, other)
        )
        yield from not_exceeded(f"{row}: user time per operation at most {words} {other}'s", ratio(ours, theirs), share)

    return goal


def _system_calls(document: Document, row: str, model: str = "") -> Iterator[float]:
    for each in document.syscalls:
        if each.row == row and each.contestant.split()[0] == OURS and each.contestant.endswith(model):
            yield sum(each.per_call.values())


def memory_grows_at_most(kilobytes: int) -> Goal:
    """Our memory grows by at most so many kilobytes, whatever the client did."""

    def goal(document: Document, _: str) -> Iterator[Target]:
        for each in document.memory:
            if each.contestant == OURS:
                growth = each.after - each.before
                text = f"{each.what}: memory grows at most {kilobytes} kB"
                yield Target(text, f"{growth:+,}", growth <= kilobytes)

    return goal


def never_falls(operation: str) -> Goal:
    """From one number of greenlets to the next, the rate does not fall by more than noise, nor below FALLEN."""

    def goal(document: Document, group: str) -> Iterator[Target]:
        ours = contestant_name(OURS, GEVENT)
        rows = [row for row in document.rows_of(group) if row.operation == operation and row.concurrency]
        rows.sort(key=lambda row: row.concurrency)
        steps = [
            (found, f"{fewer.concurrency} to {more.concurrency}")
            for fewer, more in zip(rows, rows[1:])
            if (found := ratio(rates(document, more.name, ours), rates(document, fewer.name, ours)))
        ]
        if steps:
            worst, where = min(steps, key=lambda step: step[0].middle)
            text = f"{group}:{operation}: never slower with more greenlets; worst step: {where}"
            met = all(found.middle >= 1 or (found.same and found.middle >= FALLEN) for found, _ in steps)
            yield Target(text, f"{worst.middle:.3f}", met, spread_of(worst))

    return goal


def processor_below_others(document: Document, group: str) -> Iterator[Target]:
    """In every row of a group our processor time is below that of every other client of the same model."""
    found = {
        f"{row.name} {name.rpartition(' ')[2]}": share
        for row in document.rows_of(group)
        if row.concurrency > 1
        for name in document.present()
        if name.split()[0] == OURS and (share := _processor_share(document, row, name))
    }
    if found:
        worst = max(found, key=lambda where: found[where].middle)
        text = f"{group}: CPU per operation below every other client's; worst: {worst.partition(':')[2]}"
        met = all(share.middle < 1 for share in found.values())
        yield Target(text, f"{found[worst].middle:.3f}", met, spread_of(found[worst]))


def _processor_share(document: Document, row: RowInfo, ours: str) -> Ratio | None:
    """Returns our processor time per operation as a part of the cheapest other client's of the same model."""
    model = ours.rpartition(" ")[2]
    others = [name for name in document.present() if is_other(name) and name.endswith(f" {model}")]
    known = {name: value for name in others if (value := processor_time(document, row.name, name)) is not None}
    if not known:
        return None
    least = min(known, key=known.__getitem__)
    return ratio(processor_times(document, row.name, ours), processor_times(document, row.name, least))
