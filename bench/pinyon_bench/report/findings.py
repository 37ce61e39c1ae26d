"""The finding of each plot in sentences, computed from the document: ours and the best of the other clients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..catalogue import all_rows
from ..compare import Ratio, processor_times, rate, rate_ratio, rates, ratio
from ..contestant import all_entries
from ..names import FLOOR
from ..results import Document, RowInfo
from .clients import Clients, client_of
from .measures import Percentiles, processor_value

SAME = "the same within noise as"


@dataclass(frozen=True)
class Standing:
    """Ours and the best other client in a row; fields stay empty where the row has no other client, or no floor.

    Names are clients', or contestants' where a client has several in the row. `contestants` are ours and the other.
    """

    ours: str
    rate: float
    other: str = ""
    ratio: Ratio | None = None
    floor: Ratio | None = None
    contestants: tuple[str, ...] = ()

    def rates_in(self, document: Document, row: str, number: int) -> list[float]:
        """Returns the rates of ours and of the other in one round."""
        return [rates(document, row, name)[number] for name in self.contestants]


def standing(document: Document, clients: Clients, row: str, among: list[str] | None = None) -> Standing | None:
    """Returns ours and the best other in a row, among some contestants or all; None when ours has no figures."""
    found = {name: rate(document, row, name) for name in among or document.present()}
    known = {name: value for name, value in found.items() if value is not None}
    labels = clients.labels(list(known))
    ours = max((name for name in known if clients.is_ours(name)), key=known.__getitem__, default=None)
    if ours is None:
        return None
    floor = next((name for name in known if client_of(name) == FLOOR), "")
    to_floor = rate_ratio(document, row, ours, floor)
    other = max((name for name in known if clients.is_other(name)), key=known.__getitem__, default=None)
    if other is None:
        return Standing(labels[ours], known[ours], floor=to_floor)
    to_other = rate_ratio(document, row, ours, other)
    return Standing(labels[ours], known[ours], labels[other], to_other, to_floor, (ours, other))


def not_measured(document: Document, row: str) -> list[str]:
    """Says of each client that was dropped from a row, or could not take part, why; not of one that lacks the operation."""
    dropped = {gap.contestant: gap.reason for gap in document.gaps if gap.row == row and not gap.cannot}
    absent = {each.name: each.absent for each in document.contestants if each.absent and each.name in _takers(row)}
    return [f"{name}: not measured, {reason}" for name, reason in {**absent, **dropped}.items()]


def _takers(row: str) -> set[str]:
    return _takers_by_row().get(row, set())


@lru_cache(maxsize=1)
def _takers_by_row() -> dict[str, set[str]]:
    entries = all_entries()
    return {row.name: {entry.name for entry in entries if entry.takes_part(row)} for row in all_rows(False)}


def beside(found: Standing) -> str:
    """Returns the end of a sentence that compares ours with the best other client and with the floor."""
    ends = []
    if found.ratio:
        who = f"{found.other}, the fastest other client"
        ends.append(f"{SAME} {who}" if found.ratio.same else f"{times(found.ratio.middle)} the rate of {who}")
    if found.floor:
        same = f"{SAME} the {FLOOR}" if found.floor.same else f"{times(found.floor.middle)} that of the {FLOOR}"
        ends.append(same)
    return "".join(f", {end}" for end in ends)


def times(factor: float) -> str:
    """Returns a factor with as many digits as say something."""
    return f"{factor:.0f} times" if factor >= 20 else f"{factor:.2g} times" if factor >= 5 else f"{factor:.2f} times"


def rate_sentence(document: Document, clients: Clients, row: RowInfo, where: str) -> str:
    """States our rate in a row and compares it; `where` begins the sentence."""
    found = standing(document, clients, row.name)
    if found is None:
        return ""
    sentence = f"{where}, {found.ours} reaches {found.rate:,.0f} {row.unit} per second{beside(found)}."
    return " ".join([sentence, *(f"{each}." for each in not_measured(document, row.name))])


def growth_sentence(document: Document, clients: Clients, rows: list[RowInfo]) -> str:
    """States with how many coroutines our rate peaks, and compares it with the fewest and with blocking calls."""
    stood = {row.concurrency: standing(document, clients, row.name) for row in rows}
    known = {concurrency: found.rate for concurrency, found in stood.items() if found}
    blocking = known.pop(0, None)
    if len(known) < 2:
        return ""
    fewest, best = min(known), max(known, key=known.__getitem__)
    sentence = (
        f"Its rate peaks with {best}: {known[best]:,.0f}, {times(known[best] / known[fewest])} that with {fewest}"
    )
    if blocking is not None:
        sentence += f" and {times(known[best] / blocking)} that of blocking calls"
    return sentence + "."


def processor_sentence(document: Document, clients: Clients, row: RowInfo) -> str:
    """States our processor time per operation, and compares it with the cheapest other client."""
    found = {name: processor_value(document, row.name, name) for name in document.present()}
    known = {name: value for name, value in found.items() if value}
    ours = next((name for name in known if clients.is_ours(name)), None)
    if ours is None:
        return ""
    value = known[ours]
    sentence = f"{client_of(ours)} takes {value.total.middle:.1f} µs, {value.user:.1f} of them in user code"
    other = min(
        (name for name in known if clients.is_other(name)), key=lambda name: known[name].total.middle, default=""
    )
    against = ratio(processor_times(document, row.name, ours), processor_times(document, row.name, other))
    if against:
        who = f"{client_of(other)}, the cheapest other client"
        how = f"{SAME} {who}" if against.same else f"{times(against.middle)} that of {who}"
        sentence += f": {how}"
    return sentence + "."


def latency_sentence(clients: Clients, spans: dict[str, Percentiles], concurrency: int) -> str:
    """States our median and p99 with so many coroutines, and the best p99 of the others."""
    ours = next((name for name in spans if clients.is_ours(name)), None)
    if ours is None:
        return ""
    span = spans[ours]
    sentence = (
        f"With {concurrency} coroutines, half of {client_of(ours)}'s calls take at most {time_text(span.median.middle)}, "
        f"and 99 of 100 at most {time_text(span.p99.middle)}"
    )
    others = [name for name in spans if clients.is_other(name)]
    if others:
        best = min(others, key=lambda name: spans[name].p99.middle)
        sentence += f"; the lowest p99 of another client is {client_of(best)}'s, {time_text(spans[best].p99.middle)}"
    return sentence + "."


def time_text(microseconds: float) -> str:
    """Returns a time with three digits and its unit."""
    if microseconds < 1000:
        return f"{microseconds:.0f} µs"
    return f"{microseconds / 1000:.3g} ms"


def speed_up_sentence(clients: Clients, gains: dict[str, float], concurrency: int, baseline: str) -> str:
    """States how many times the baseline's rate ours reaches, and the best other client."""
    ours = max((name for name in gains if clients.is_ours(name)), key=gains.__getitem__, default=None)
    if ours is None:
        return ""
    sentence = (
        f"With {concurrency} coroutines, {ours} reaches {times(gains[ours])} the rate of {baseline}'s blocking calls"
    )
    others = [name for name in gains if clients.is_other(name)]
    if others:
        best = max(others, key=gains.__getitem__)
        sentence += f"; the best other client, {best}, reaches {times(gains[best])}"
    return sentence + "."
