"""Compares the servers' counters with what every contestant claims."""

from __future__ import annotations

from dataclasses import dataclass

from .calls import STORES, row_keys
from .protocol import RowSpec, Step, value_of
from .servers import Server

MOST_KEYS_READ = 10


@dataclass(frozen=True)
class Counts:
    """How many commands servers have executed; a multi-get counts one get for every key."""

    gets: int
    sets: int
    deletes: int
    evictions: int

    @staticmethod
    def taken(servers: list[Server]) -> Counts:
        """Returns the sum of the servers' counters."""
        all_counters = [server.counters() for server in servers]

        def total(*names: str) -> int:
            return sum(counters[name] for counters in all_counters for name in names)

        return Counts(total("cmd_get"), total("cmd_set"), total("delete_hits", "delete_misses"), total("evictions"))

    def minus(self, earlier: Counts) -> Counts:
        """Returns the counts since then."""
        return Counts(
            self.gets - earlier.gets,
            self.sets - earlier.sets,
            self.deletes - earlier.deletes,
            self.evictions - earlier.evictions,
        )

    def differ_from(self, row: RowSpec) -> str:
        """Returns in words how the counts differ from what a row of steps should cause; empty if they do not.

        A client without a quiet barrier adds one get per key. One without `incr` with an initial value adds one
        set.
        """
        spare_gets = len(row_keys(row)) if row["quiet"] else 0
        spare_sets = 1 if any(step[0] == "incr_or_create" for phase in row["phases"] for step in phase["steps"]) else 0
        return self.difference(expected_counts(row), spare_gets, spare_sets)

    def difference(self, wanted: Counts, spare_gets: int = 0, spare_sets: int = 0) -> str:
        """Returns in words how the counts differ from the wanted ones, with so many extra gets and sets allowed."""
        checks = (
            ("gets", self.gets, wanted.gets, spare_gets),
            ("sets", self.sets, wanted.sets, spare_sets),
            ("deletes", self.deletes, wanted.deletes, 0),
            ("evictions", self.evictions, 0, 0),
        )
        wrong = [f"{got} {name} instead of {want}" for name, got, want, spare in checks if not 0 <= got - want <= spare]
        return f"the servers counted {', '.join(wrong)}" if wrong else ""


def expected_counts(row: RowSpec) -> Counts:
    """Returns what servers count when a row is timed once, including preparation and warm-up."""
    warmup = row["warmup"] if row["connect"] == "outside" else 0
    work = [(row["prepare"], 1), *((phase["steps"], phase["iterations"] + warmup) for phase in row["phases"])]
    gets = sum(times * sum(_gets(step) for step in steps) for steps, times in work)
    sets = sum(times * len(_stores(step)) for steps, times in work for step in steps)
    deletes = sum(times * sum(step[0] == "delete" for step in steps) for steps, times in work)
    return Counts(gets, sets, deletes, 0)


def _gets(step: Step) -> int:
    if step[0] == "get_many":
        return len(step[1])
    return int(step[0] == "get")


def _stores(step: Step) -> list[list[str]]:
    """Returns the pairs of key and text that a step stores."""
    if step[0] == "set_many":
        pairs: list[list[str]] = step[1]
        return pairs
    return [step[1:3]] if step[0] in STORES else []


def stored_wrongly(row: RowSpec, servers: list[Server]) -> str:
    """Returns in words which value the servers hold in another form than it was set; empty if none.

    This finds clients that compress or wrap values, and so do other work than the rest.
    """
    if row["kind"] == "object":
        return ""
    steps = [*row["prepare"], *(step for phase in row["phases"] for step in phase["steps"])]
    stores = {key: value_of("bytes", row["length"], text) for step in steps for key, text in _stores(step)}
    return held_wrongly(stores, servers)


def held_wrongly(values: dict[str, bytes], servers: list[Server]) -> str:
    """Returns in words which of these values, in a sample, the servers hold differently; empty if none."""
    every = max(1, len(values) // MOST_KEYS_READ)
    for key, wanted in list(values.items())[::every]:
        held = [stored for server in servers if (stored := server.stored(key)) is not None]
        if held != [wanted]:
            sizes = ", ".join(f"{len(value)} bytes" for value in held) or "nothing"
            return f"the servers hold {sizes} under {key[:30]} instead of the {len(wanted)} bytes that were set"
    return ""
