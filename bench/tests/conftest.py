"""A small result document: two contestants, three rounds, known figures."""

from __future__ import annotations

import pytest
from made_up import full_document

from pinyon_bench import step_cells
from pinyon_bench.coroutines import cells as coroutine_cells
from pinyon_bench.locks import cells as locks_cells
from pinyon_bench.results import ContestantInfo, Document, Gap, Machine, RowInfo, Sample

pytest_plugins = ["shuffled"]


def sample(number: int, row: str, contestant: str, wall: float) -> Sample:
    return Sample(number, row, contestant, 1000, wall, wall / 4, wall / 4)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contestants may take longer to be verified than on a machine that is there to measure."""
    monkeypatch.setattr(step_cells, "VERIFY_SECONDS", 300.0)
    monkeypatch.setattr(coroutine_cells, "VERIFY_SECONDS", 300.0)
    monkeypatch.setattr(locks_cells, "VERIFY_LIMIT", 300.0)


@pytest.fixture
def document() -> Document:
    """`fast` takes half of `slow`'s time in set:plain, and about the same time in get:plain."""
    walls = {
        ("set:plain", "fast"): (0.10, 0.11, 0.09),
        ("set:plain", "slow"): (0.20, 0.22, 0.18),
        ("get:plain", "fast"): (0.10, 0.10, 0.10),
        ("get:plain", "slow"): (0.09, 0.11, 0.10),
        ("multiget:10:1", "fast"): (0.01, 0.01, 0.01),
    }
    samples = [
        sample(number, row, contestant, wall)
        for (row, contestant), values in walls.items()
        for number, wall in enumerate(values, start=1)
    ]
    return Document(
        created="2026-01-01 00:00:00 +0000",
        command="python -m pinyon_bench run",
        placement="same-core",
        rounds=3,
        machine=Machine("A Processor", 2, "Linux 6", "Debian"),
        versions={"memcached": "1.6.18"},
        contestants=[
            ContestantInfo("fast", "1.0", "defaults"),
            ContestantInfo("slow", "2.0", "defaults"),
            ContestantInfo("gone", absent="cannot be imported"),
        ],
        rows=[
            RowInfo("set:plain", "seed", "operations", "sets"),
            RowInfo("get:plain", "seed", "operations", "gets"),
            RowInfo("multiget:10:1", "multiget", "keys", "ten keys"),
        ],
        gaps=[Gap("multiget:10:1", "slow", "no get many", True)],
        samples=samples,
    )


@pytest.fixture(scope="session")
def full() -> Document:
    """A document with every group of rows, in which Pinyon is the first of the contestants."""
    return full_document()
