"""What a contestant is asked for a row, and the judgement of what it tells: the same for every language.

A contestant only does the steps. Everything that would have to be written in each language is here: a model of a cache,
percentiles, and whether two workers were inside at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import itemgetter
from statistics import fmean
from typing import Any

from pinyon.cli.stress.checks import overlapping

from . import wrong
from .calls import STORES
from .contestant import ContestantError, answered
from .protocol import LocksSpec, PairsSpec, PhaseSpec, RowSpec, Step, value_of

#: Asks a contestant, and returns its reply.
Ask = Callable[[dict[str, Any]], dict[str, Any]]
ABSENT = "absent"


def verify(ask: Ask, row: Any) -> dict[str, Any]:
    """Has a row done once, and judges every reply. Raises ContestantError."""
    if "pairs" in row:
        return _verify_pairs(ask, row)
    return judged(row, _play(ask, row, check=True)) if "workload" in row else _verify_steps(ask, row)


def time(ask: Ask, row: Any) -> dict[str, Any]:
    """Has a row timed. Raises ContestantError if anything was wrong."""
    if "phases" in row and row["prepare"]:
        _play(ask, row, phases=once(row["prepare"]), connect="inside", quiet=False)
    reply = _play(ask, row)
    return judged(row, reply) if "workload" in row else told(reply)


def _play(ask: Ask, row: Any, check: bool = False, **changes: Any) -> dict[str, Any]:
    return answered(ask({"do": "play", "row": {**row, "check": check, **changes}}))


def once(steps: list[Step]) -> list[PhaseSpec]:
    """Returns the phases that do steps once."""
    return [{"iterations": 1, "steps": steps}]


def _verify_steps(ask: Ask, row: RowSpec) -> dict[str, Any]:
    """Does the row against a model of a cache, then reads everything back with a new client."""
    model = CacheModel(row)

    def check(phases: list[PhaseSpec], quiet: bool) -> None:
        reply = _play(ask, row, check=True, phases=phases, connect="inside", quiet=quiet)
        steps = [step for phase in phases for _ in range(phase["iterations"]) for step in phase["steps"]]
        for step, each in zip(steps, reply["replies"], strict=True):
            model.check(step, each, quiet)

    check(once(row["prepare"]), False)
    check(row["phases"], row["quiet"])
    counters = {step[1] for phase in row["phases"] for step in phase["steps"] if step[0].startswith(("incr", "decr"))}
    check(once([["get", key] for key in model.items if key not in counters]), False)
    return {}


def _verify_pairs(ask: Ask, row: PairsSpec) -> dict[str, Any]:
    """Does every pair once, gets what was set, and gets what is absent. Contestants compare every reply."""
    work = [("set", row["pairs"])] if row["operation"] == "set" else []
    for operation, pairs in (*work, ("get", row["pairs"]), ("get", [[ABSENT, None]])):
        _play(ask, row, check=True, operation=operation, pairs=pairs, warmup=0, passes=1, clocked=0)
    return {}


def judged(row: LocksSpec, reply: dict[str, Any]) -> dict[str, Any]:
    """Returns the reply to a row of locks. Raises ContestantError if two workers were inside at once, or cycles are missing."""
    if next(overlapping(sorted(reply["inside"]), itemgetter(0), itemgetter(1)), None):
        raise ContestantError("WrongResult: two workers were inside at once")
    if row["count"] and reply["cycles"] != row["count"]:
        raise ContestantError(f"WrongResult: the counter is {reply['cycles']} instead of {row['count']}")
    return told(reply)


def told(reply: dict[str, Any]) -> dict[str, Any]:
    """Returns a reply with its latency instead of how long every call took."""
    seconds = reply.pop("seconds", [])
    return {**reply, "latency": latency_of(seconds)}


def latency_of(seconds: list[float]) -> dict[str, float] | None:
    """Returns mean, median, 99th percentile and maximum of single calls; None without any."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    count = len(ordered)
    return {
        "mean": fmean(ordered),
        "median": ordered[(count - 1) // 2],
        "p99": ordered[math.ceil(count * 0.99) - 1],
        "longest": ordered[-1],
    }


class CacheModel:
    """A model of a cache: a dict that predicts every reply.

    In a quiet row, a get may overtake earlier quiet commands. So a key that the row deletes may also be absent.
    """

    def __init__(self, row: RowSpec) -> None:
        self._row = row
        #: Everything that must be stored now.
        self.items: dict[str, Any] = {}
        self._unsettled = {
            step[1] for phase in row["phases"] for step in phase["steps"] if row["quiet"] and step[0] == "delete"
        }

    def check(self, step: Step, reply: Any, quiet: bool = False) -> None:
        """Applies one step; raises ContestantError when its reply is wrong. That of a quiet step is not known."""
        operation, key, *rest = step
        if operation in STORES:
            stored = operation == "set" or (operation == "add") == (key not in self.items)
            if stored:
                self.items[key] = self._value(rest[0])
            expect(step, quiet or reply, quiet or stored)
        elif operation == "get":
            if reply is not None or key not in self._unsettled:
                expect(step, reply, self.items.get(key))
        elif operation == "get_many":
            expect(step, reply, {name: self.items[name] for name in key if name in self.items})
        elif operation == "set_many":
            self.items |= {name: self._value(text) for name, text in key}
            expect(step, reply, len(key))
        elif operation == "delete":
            if self.items.pop(key, None) is not None and not quiet:
                expect(step, reply, True)
        else:
            self._count(step, reply)

    def _value(self, text: str) -> Any:
        value = value_of(self._row["kind"], self._row["length"], text)
        return value.decode("latin-1") if isinstance(value, bytes) else value

    def _count(self, step: Step, reply: Any) -> None:
        operation, key, delta, *initial = step
        if key in self.items:
            self.items[key] = max(0, self.items[key] + (-delta if operation == "decr" else delta))
        elif initial:
            self.items[key] = initial[0]
        expect(step, reply, self.items.get(key))


def expect(step: Step, reply: Any, wanted: Any) -> None:
    """Raises ContestantError when a reply is not the one wanted."""
    try:
        wrong.expect(step[0], step[1], reply, wanted)
    except wrong.WrongResult as error:
        raise ContestantError(f"WrongResult: {error}") from None
