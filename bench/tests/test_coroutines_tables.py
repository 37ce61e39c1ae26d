from __future__ import annotations

import pytest

from pinyon_bench import grids
from pinyon_bench.catalogue import GROUPS, targets
from pinyon_bench.coroutines import seed_tables
from pinyon_bench.coroutines.rows import pairs_rows, size_row
from pinyon_bench.coroutines.seed_lines import finished_line, started_line
from pinyon_bench.declaration import Target
from pinyon_bench.results import ContestantInfo, Document, Latency, Sample, Syscalls

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


def test_the_rates_of_a_group_by_client(pairs_document: Document) -> None:
    grid = grids.rate_grid(pairs_document, GROUPS["gevent"])
    assert grid.header == ["operation, coroutines", "Pinyon", "pylibmc", "pymemcache", "floor"]
    assert grid.rows[0] == ["get sync", "50,000 (1)", "45,000 (0.90)", "–", "–"]
    assert grid.rows[2] == ["get 16", "300,000 (1)", "40,000 (0.13)", "60,000 (0.20)", "900,000 (3.0)"]
    slow = grids.rate_grid(pairs_document, GROUPS["slow"])
    assert slow.rows[1] == ["get 64B 100", "–", "2,900 (97)", "1,500 (50)", "2,000 (67)"]


def test_the_layout_of_seed_002(pairs_document: Document) -> None:
    lines = seed_tables.seed_lines(pairs_document)
    assert lines[0] == "### Pinyon gevent get (2500 keys)"
    assert lines[2].split() == ["elapsed", "rate", "avg", "p50", "p99", "max"]
    assert [line.split()[0] for line in lines[3:7]] == ["sync", "gevent-64", "gevent-16", "gevent-01"]
    assert lines[5].split()[1:] == ["0.008", "300,000", "2.000", "1.000", "5.000", "10.000"]
    assert all(len(line) <= 100 for line in lines)


def test_the_lines_of_seed_003() -> None:
    in_coroutines, blocking = size_row("set", 64, 4, 10_000), size_row("get", 10_240, 0, 100)
    assert started_line("Pinyon", in_coroutines) == (
        "Pinyon SET test started (10000 iterations/64 bytes data/4 threads)"
    )
    assert started_line("Pinyon", blocking) == "Pinyon GET test started (100 iterations/10240 bytes data)"
    assert finished_line(Sample(1, "", "", 10_000, 0.787, 0, 0)) == (
        "Finished 10000 iters in 0.79 seconds. Average reqs/s: 12706"
    )
