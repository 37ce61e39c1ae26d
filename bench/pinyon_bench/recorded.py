"""What the repository keeps of a long run: the medians of its rounds, and its targets as they were judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median
from typing import Any

from .catalogue import targets
from .compare import processor_time, rate, samples_of
from .locks.measures import commands_sent, per_cycle, published, reads, server_time, share_from_another
from .results import Document, Handovers, Latency, Sample, ServerWork

#: What a cell of medians counts. Figures are kept to eight digits.
OPERATIONS = 1000


def condensed(document: Document) -> Document:
    """Returns a document of one round that has the same medians."""
    cells = list(dict.fromkeys((each.row, each.contestant) for each in document.samples))
    worked = list(dict.fromkeys((each.row, each.contestant) for each in document.server_work))
    shared = list(dict.fromkeys((each.row, each.contestant) for each in document.handovers))
    return replace(
        document,
        verdicts=targets(document),
        samples=[sample for cell in cells for sample in _samples(document, *cell)],
        server_work=[work for cell in worked for work in _work(document, *cell)],
        handovers=[
            Handovers(1, row, name, OPERATIONS, round(OPERATIONS * (share_from_another(document, name) or 0)))
            for row, name in shared
        ],
    )


def _samples(document: Document, row: str, name: str) -> Iterable[Sample]:
    found = samples_of(document, row, name)
    value, busy = rate(document, row, name), processor_time(document, row, name)
    if value is None or busy is None:
        return
    user = median(each.user / each.operations for each in found)
    latencies = [each.latency for each in found if each.latency]
    latency = None
    if latencies:
        parts = ("mean", "median", "p99", "longest")
        latency = Latency(*(_rounded(median(getattr(each, part) for each in latencies)) for part in parts))
    wall, user, system = (_rounded(each * OPERATIONS) for each in (1 / value, user, max(0.0, busy / 1e6 - user)))
    yield Sample(1, row, name, OPERATIONS, wall, user, system, latency)


def _work(document: Document, row: str, name: str) -> Iterable[ServerWork]:
    def of(part: Callable[[ServerWork], float]) -> Any:
        return _rounded((per_cycle(document, row, name, part) or 0.0) * OPERATIONS)

    if per_cycle(document, row, name, commands_sent) is not None:
        calls = {"publish": round(of(published))}
        yield ServerWork(1, row, name, OPERATIONS, calls, {"all": of(commands_sent)}, of(server_time), round(of(reads)))


def _rounded(value: float) -> float:
    return float(f"{value:.8g}")
