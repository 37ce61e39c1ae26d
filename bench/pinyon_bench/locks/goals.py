"""The kinds of targets of locks; rows and groups declare which of them Pinyon must reach."""

from __future__ import annotations

from collections.abc import Iterator

from ..compare import rates, ratio
from ..declaration import Goal
from ..goals import not_exceeded, reached
from ..names import FLOOR, OURS, contestant_name
from ..results import Document, Target
from .measures import (
    PerCycle,
    commands_sent,
    in_round_trips,
    latencies,
    lock_rows_of,
    middle_of,
    p99_of,
    per_cycle,
    published,
    reads,
    server_time,
)
from .workloads import FAR, HANDOVER, MUTEX, NEAR, PAIR, PERMITS, PING, PIPELINED, PURE, READ, SCRIPT, group_of

OURS_SCRIPT, OURS_PURE = f"{OURS} {SCRIPT}", f"{OURS} {PURE}"
ONE_PIPELINED = f"{group_of(PIPELINED)}:1"
#: What counts as exact, because warm connections may be opened within a cell.
EXACT = 0.005


def exactly_commands(wanted: float) -> Goal:
    """A cycle sends exactly `wanted` commands, with any number of keys and workers."""

    def goal(document: Document, _: str) -> Iterator[Target]:
        rows = [
            row.name for workload in (PAIR, MUTEX, HANDOVER, READ, PERMITS) for row in lock_rows_of(document, workload)
        ]
        found = {
            f"{row.partition(':')[2]}{name.removeprefix(OURS_SCRIPT)}": value
            for row in rows
            for name in document.present()
            if name.startswith(OURS_SCRIPT) and (value := per_cycle(document, row, name, commands_sent)) is not None
        }
        if found:
            worst = max(found, key=lambda where: abs(found[where] - wanted))
            text = f"locks: exactly {wanted:g} commands per cycle; worst: {worst}"
            yield Target(text, f"{found[worst]:.3f}", abs(found[worst] - wanted) < EXACT)

    return goal


def _at_most_per_cycle(most: float, part: PerCycle, text: str, ours: str = OURS_SCRIPT, digits: int = 2) -> Goal:
    """What Redis counts for a cycle is at most `most`; `text` follows the row's name."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        value = per_cycle(document, row, ours, part)
        if value is not None:
            yield Target(f"{row}{text}", f"{value:.{digits}f}", value <= most)

    return goal


def commands_per_cycle(wanted: float) -> Goal:
    """A cycle sends exactly `wanted` commands."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        value = per_cycle(document, row, OURS_SCRIPT, commands_sent)
        if value is not None:
            yield Target(f"{row}: exactly {wanted:g} commands per cycle", f"{value:.3f}", abs(value - wanted) < EXACT)

    return goal


def at_most_wake_ups(wanted: float) -> Goal:
    """A grant takes at most `wanted` messages."""
    return _at_most_per_cycle(wanted, published, f": at most {wanted:g} wake-up per grant", digits=3)


def pipelined_share(wanted: float, models: tuple[str, ...]) -> Goal:
    """Our rate is at least `wanted` of the floor's pipelined pairs in the same round, the scale of seed 004's figures."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        for model in models:
            ours = rates(document, row, contestant_name(OURS_SCRIPT, model))
            found = ratio(ours, rates(document, ONE_PIPELINED, FLOOR))
            text = f"{row} {model}: at least {wanted:g} of the {FLOOR}'s pipelined pairs"
            yield from reached(text, found, wanted)

    return goal


def grows_at_most(wanted: float, fewest: str, most: str, models: tuple[str, ...]) -> Goal:
    """Many keys take at most `wanted` times as long as few."""

    def goal(document: Document, group: str) -> Iterator[Target]:
        for model in models:
            ours = contestant_name(OURS_SCRIPT, model)
            found = ratio(*(rates(document, f"{group}:{label}", ours) for label in (fewest, most)))
            text = f"{group} {model}: {most} takes at most {wanted:g} times as long as {fewest}"
            yield from not_exceeded(text, found, wanted)

    return goal


def round_trips_of_pure(wanted: int) -> Goal:
    """Without scripts a cycle takes `wanted` round trips."""
    text = f" {PURE}: 1 round trip to lock, {wanted - 1} to unlock"
    return _at_most_per_cycle(wanted + EXACT, reads, text, OURS_PURE)


def at_most_round_trips(middle: float, p99: float) -> Goal:
    """A hand-over takes at most this many round trips of the floor over the same link."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        link = FAR if f":{FAR}:" in row else NEAR
        for what, part, most in (("p50", middle_of, middle), ("p99", p99_of, p99)):
            found = in_round_trips(document, OURS_SCRIPT, part, link)
            yield from not_exceeded(f"{row}: {what} at most {most:g} round trips of the {FLOOR}", found, most)

    return goal


def at_most_round_trips_a_pair(most: float) -> Goal:
    """A pair takes at most this many round trips of the floor over the same link, in the middle."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        ours = latencies(document, row, OURS_SCRIPT, middle_of)
        found = ratio(ours, latencies(document, group_of(PING, FAR), FLOOR, middle_of))
        yield from not_exceeded(f"{row}: p50 of a pair at most {most:g} round trips of the {FLOOR}", found, most)

    return goal


def server_time_at_most(times: float) -> Goal:
    """A cycle takes at most so many times the server's time of the floor's two minimal scripts."""

    def goal(document: Document, row: str) -> Iterator[Target]:
        ours, floor = (per_cycle(document, row, name, server_time) for name in (OURS_SCRIPT, FLOOR))
        if ours and floor:
            text = f"{row}: at most {times:g} times the {FLOOR}'s time of the server"
            yield Target(text, f"{ours / floor:.3f}", ours <= times * floor)

    return goal
