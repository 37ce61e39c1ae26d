"""What to know first: Pinyon beside the fastest other client and the floor, and the targets that were missed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .catalogue import targets
from .compare import processor_time, rate, rate_ratio
from .hot.rows import HOT
from .names import (
    ANYEVENT,
    ASYNCIO,
    BARE,
    CORO,
    FLOOR,
    GEVENT,
    NEAR_CLIENT,
    OURS,
    PERL,
    RUBY,
    UVLOOP,
    C,
    is_other,
    keeps_hot_keys,
    model_of,
)
from .placement import TWO_CORES, UNPINNED
from .results import Document
from .tables import NONE, Table, short

LOCKS_OURS = f"{OURS} script"
#: The workloads of the summary: their words, row and contestant.
WORKLOADS = (
    ("get, 36 bytes", "get:36B", OURS),
    ("set, 36 bytes", "set:36B", OURS),
    ("get, 100 KB", "get:100KB", OURS),
    ("set, 100 KB", "set:100KB", OURS),
    ("set in a quiet batch", "setq:plain", OURS),
    ("multi-get, 100 keys", "multiget:100:1", OURS),
    ("multi-get, 100 keys, 4 servers", "multiget:100:4", OURS),
    ("get, 8 threads on one client", "threads:get:8", OURS),
    ("get, 32 threads on one client", "threads:get:32", OURS),
    ("get of hot keys in memory", "hot:thread", NEAR_CLIENT),
    ("get, 1 greenlet (gevent)", "gevent:get:1", f"{OURS} {GEVENT}"),
    ("get, 16 greenlets (gevent)", "gevent:get:16", f"{OURS} {GEVENT}"),
    ("get, 16 tasks (asyncio)", "asyncio:get:16", f"{OURS} {ASYNCIO}"),
    ("get, 16 tasks (uvloop)", "uvloop:get:16", f"{OURS} {UVLOOP}"),
    ("get, 100 tasks, 30 ms away", "slow:get:64B:100", f"{OURS} {ASYNCIO}"),
    ("Ruby: get, 36 bytes", "ruby:get:36B", f"{OURS} {RUBY}"),
    ("Ruby: set, 36 bytes", "ruby:set:36B", f"{OURS} {RUBY}"),
    ("Ruby: multi-get, 100 keys", "ruby:multiget:100:1", f"{OURS} {RUBY}"),
    ("Perl: get, 64 bytes", "perl:get:64B", f"{OURS} {PERL}"),
    ("Perl: set, 64 bytes", "perl:set:64B", f"{OURS} {PERL}"),
    ("Perl: multi-get, 100 keys", "perl:multiget:100:1", f"{OURS} {PERL}"),
    ("Perl: get, 100 coroutines (Coro)", "perl:loops:local:get:64B:100", f"{OURS} {CORO}"),
    ("Perl: get, 100 callbacks (AnyEvent)", "perl:loops:local:get:64B:100", f"{OURS} {ANYEVENT}"),
    ("C: get, 64 bytes", "c:get:64B", f"{OURS} {C}"),
    ("lock and unlock 1 name", "locks:pair:1", LOCKS_OURS),
    ("lock and unlock 10 names", "locks:pair:10", LOCKS_OURS),
    ("10 greenlets, each locks 10 of 19 names", "locks:mutex:10/19", f"{LOCKS_OURS} {GEVENT}"),
)
#: Below this part of the other's rate, Pinyon is called slower, unless it is the same within noise.
CLOSE = 0.95
#: Their figures vary too much.
OTHER_PLACEMENTS = (TWO_CORES, UNPINNED)


@dataclass(frozen=True)
class Standing:
    """One row: Pinyon's contestant, the fastest other client of its concurrency model, and their ratio of medians."""

    row: str
    ours: str
    rate: float
    other: str
    other_rate: float
    same: bool
    of_floor: float | None

    @property
    def factor(self) -> float:
        """How many times the other's rate Pinyon reaches."""
        return self.rate / self.other_rate


def standing(document: Document, row: str, ours: str) -> Standing | None:
    """Returns how a contestant of Pinyon's compares in a row; None where it or every other client has no figure."""
    rates = {name: found for name in document.present() if (found := rate(document, row, name))}
    others = [name for name in rates if is_other(name) and not name.startswith(BARE)]
    others = [name for name in others if model_of(name) == model_of(ours)]
    if ours not in rates or not others:
        return None
    other = max(others, key=rates.__getitem__)
    ratio = rate_ratio(document, row, ours, other)
    same = ratio is not None and ratio.low < ratio.high and ratio.same
    of_floor = rates[ours] / rates[FLOOR] if FLOOR in rates else None
    return Standing(row, ours, rates[ours], other, rates[other], same, of_floor)


def summary(document: Document) -> Table:
    """The chosen workloads that were measured; without any, every row that was."""
    found = [(words, each) for words, row, ours in WORKLOADS if (each := standing(document, row, ours))]
    found = found or [(f"{each.row} {each.ours}", each) for each in _every(document)]
    lines = [_line(document, words, each) for words, each in found]
    header = ["workload", "Pinyon/s", "fastest other/s", "factor", "of floor", "CPU, µs"]
    note = (
        "Medians over the rounds, per second: multi-gets count keys, locks count cycles of locking and unlocking. factor: the "
        "ratio of the two medians; ~: the same within noise. of floor: the ratio to the floor's median. CPU: processor time of the client's process per operation, Pinyon's and the other's."
    )
    return Table(f"{OURS} and the fastest other client", header, lines, note)


def _line(document: Document, words: str, each: Standing) -> list[str]:
    busy = [processor_time(document, each.row, name) for name in (each.ours, each.other)]
    return [
        words,
        f"{each.rate:,.0f}",
        f"{each.other_rate:,.0f} ({each.other.removesuffix(f' {model_of(each.other)}')})",
        f"{'~' * each.same}{short(each.factor)}",
        NONE if each.of_floor is None else f"{each.of_floor:.2f}",
        "\u00a0/\u00a0".join(f"{time:.2f}" for time in busy if time) or NONE,
    ]


def slower(document: Document) -> Table:
    """The rows in which another client of the same concurrency model is faster."""
    about = {row.name: row.about for row in document.rows}
    lines = [
        [each.row, about[each.row], f"{each.other} {each.other_rate:,.0f}", f"{each.ours} {each.rate:,.0f}"]
        for each in _every(document)
        if each.factor < CLOSE and not each.same and not each.row.endswith(OTHER_PLACEMENTS)
    ]
    header = ["row", "what it does", "faster, per second", "Pinyon, per second"]
    return Table("Where another client is faster", header, lines)


def _every(document: Document) -> Iterator[Standing]:
    for row in document.rows:
        for ours in document.present():
            # `Pinyon pure` is a fallback for servers without scripts; its rows are in the tables.
            # Pinyon without hot keys in memory stands beside clients that have them.
            is_compared = "pure" not in ours.split() and (row.group != HOT.name or keeps_hot_keys(ours))
            if ours.split()[0] == OURS and is_compared and (each := standing(document, row.name, ours)):
                yield each


def verdict(document: Document) -> str:
    """Says how many targets are met; empty when nothing was measured that has one."""
    found = targets(document)
    return f"{sum(target.met for target in found)} of {len(found)} targets are met." if found else ""


def missed(document: Document) -> Table:
    """The targets that were missed."""
    lines = [
        [target.row, target.wanted, f"{target.measured} ({target.spread})" if target.spread else target.measured]
        for target in targets(document)
        if not target.met
    ]
    note = "In parentheses: the lowest and the highest round."
    return Table("Missed targets", ["row", "target", "measured"], lines, note)
