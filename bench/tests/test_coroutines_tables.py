from __future__ import annotations

import pytest

from pinyon_bench.catalogue import targets
from pinyon_bench.coroutines.rows import pairs_rows
from pinyon_bench.coroutines.seed import program_rows
from pinyon_bench.results import ContestantInfo, Document, Latency, Sample, Syscalls, Target
from pinyon_bench.summary import slower
from pinyon_bench.tables import Table, tables

OPERATIONS = 1000


def sample(number: int, row: str, contestant: str, rate: float, processor: float = 1e-5) -> Sample:
    wall = OPERATIONS / rate
    latency = Latency(2e-3, 1e-3, 5e-3, 8e-3 + number / 1e3)
    return Sample(number, row, contestant, OPERATIONS, wall, processor * OPERATIONS, 0.0, latency)


@pytest.fixture
def pairs_document(document: Document) -> Document:
    """Known rates in two rounds: the best contestant and its lead can be computed by hand."""
    rates = {
        "gevent:get:sync": {"Pinyon": 50_000, "pylibmc": 45_000},
        "gevent:get:1": {"Pinyon gevent": 40_000, "pylibmc gevent": 45_000},
        "gevent:get:16": {
            "Pinyon gevent": 300_000,
            "pylibmc gevent": 40_000,
            "pymemcache gevent": 60_000,
            "floor": 9e5,
        },
        "gevent:get:64": {"Pinyon gevent": 200_000, "pylibmc gevent": 40_000},
        "threads:get:1": {"Pinyon": 50_000, "pylibmc ClientPool": 40_000},
        "threads:get:8": {"Pinyon": 45_000, "pylibmc ClientPool": 40_000},
        "asyncio:set:16": {"Pinyon asyncio": 200_000, "emcache autobatch asyncio": 30_000, "aiomcache asyncio": 10_000},
        "slow:get:64B:sync": {"Pinyon": 30},
        "slow:get:64B:100": {"Pinyon asyncio": 2900, "emcache asyncio": 2000, "aiomcache asyncio": 1500},
    }
    names = list(dict.fromkeys(name for contestants in rates.values() for name in contestants))
    document.rows = [row.info() for row in pairs_rows(short=True) if row.name in rates]
    document.contestants = [ContestantInfo(name, "1.0") for name in names]
    document.samples = [
        sample(number, row, name, rate, {"Pinyon": 1e-6, "aiomcache": 2e-5}.get(name.split()[0], 1e-5))
        for row, contestants in rates.items()
        for name, rate in contestants.items()
        for number in (1, 2)
    ]
    document.gaps = []
    document.syscalls = [Syscalls("Pinyon gevent", "gevent:get:64", {"sendto": 0.015, "recvfrom": 0.1})]
    return document


def found(document: Document) -> dict[str, Target]:
    return {target.text: target for target in targets(document)}


def test_targets_are_computed_from_the_document(pairs_document: Document) -> None:
    known = found(pairs_document)
    expected = {
        "gevent:get:16: at least 0.45 of the floor's rate": ("0.333", False),
        "gevent:get:1: at least 0.75 of the blocking client": ("0.800", True),
        "gevent:get: never slower with more greenlets; worst step: 16 to 64": ("0.667", False),
        "threads:get:8: at least 0.9 of the rate of one thread": ("0.900", True),
        "threads:get:8: CPU per operation at most pylibmc ClientPool's": ("0.100", True),
        "slow:get:64B:100 asyncio: at least 95 times the blocking client": ("96.667", True),
        "gevent:get:64: at most 0.1 system calls per operation": ("0.115", False),
        "slow: CPU per operation below every other client's; worst: get:64B:100 asyncio": ("0.100", True),
    }
    assert {text: (known[text].measured, known[text].met) for text in expected} == expected


def test_targets_without_figures_are_left_out(pairs_document: Document) -> None:
    pairs_document.samples, pairs_document.syscalls = [], []
    assert not found(pairs_document)


def table(document: Document, title: str) -> Table:
    return next(table for table in tables(document) if table.title.startswith(title))


def test_the_rates_of_a_group_by_client(pairs_document: Document) -> None:
    rates = table(pairs_document, "gevent: pairs of UUIDs (seed 002), operations per second")
    assert rates.header == ["operation, coroutines", "Pinyon", "pylibmc", "pymemcache", "floor"]
    assert rates.rows[:3] == [
        ["get sync", "50,000", "45,000 (1.11)", "–", "–"],
        ["get 1", "40,000", "45,000 (0.89)", "–", "–"],
        ["get 16", "300,000", "40,000 (7.50)", "60,000 (5.00)", "900,000 (0.33)"],
    ]
    latency = table(pairs_document, "gevent: pairs of UUIDs (seed 002), latency")
    assert [line[1] for line in latency.rows] == ["1,000 / 5,000"] * 4


def test_where_another_client_is_faster(pairs_document: Document) -> None:
    found = slower(pairs_document)
    assert [line[0] for line in found.rows] == ["gevent:get:1"]
    assert found.rows[0][2:] == ["pylibmc gevent 45,000", "Pinyon gevent 40,000"]


@pytest.mark.parametrize("slow", [False, True])
def test_the_program_of_seed_003_has_as_many_operations_as_asked(slow: bool) -> None:
    rows = program_rows(100, 50, slow)
    assert {row.count for row in rows} == {50} and {row.size for row in rows} == {100}
    assert {row.concurrency for row in rows} == {0, 1, 2, 4, 10, 100}
    assert {row.link for row in rows} == {"slow" if slow else "near"}
    assert len({row.name for row in rows}) == len(rows) == 24
