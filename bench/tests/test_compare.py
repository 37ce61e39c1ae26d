from __future__ import annotations

import pytest

from pinyon_bench.compare import Ratio, processor_time, rate, rate_ratio, ratio
from pinyon_bench.results import Document


def test_rate_is_the_median_over_rounds(document: Document) -> None:
    assert rate(document, "set:plain", "fast") == pytest.approx(10_000)
    assert processor_time(document, "set:plain", "fast") == pytest.approx(50)


def test_ratio_is_taken_within_rounds(document: Document) -> None:
    found = rate_ratio(document, "set:plain", "fast", "slow")
    assert found is not None
    assert (found.low, found.middle, found.high) == pytest.approx((2, 2, 2))
    assert not found.same


def test_a_spread_around_one_is_the_same(document: Document) -> None:
    found = rate_ratio(document, "get:plain", "fast", "slow")
    assert found is not None and found.same


def test_one_disturbed_round_of_five_decides_nothing() -> None:
    rounds = range(1, 6)
    ours = {number: 3.0 if number != 4 else 0.5 for number in rounds}
    assert ratio(ours, dict.fromkeys(rounds, 1.0)) == Ratio(3.0, 3.0, 3.0)


def test_the_middle_ratio_is_that_of_a_round() -> None:
    ours = {1: 8.0, 2: 3.0, 3: 5.0, 4: 6.0}
    assert ratio(ours, dict.fromkeys(ours, 1.0)) == Ratio(5.0, 3.0, 8.0)


def test_a_void_cell_has_no_figures(document: Document) -> None:
    assert rate(document, "multiget:10:1", "slow") is None
    assert rate_ratio(document, "multiget:10:1", "fast", "slow") is None
