"""The benchmark of failing servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinyon_bench.cli import parse
from pinyon_bench.failure import measure, page
from pinyon_bench.failure.clients import CONTENDERS, TIMEOUT
from pinyon_bench.markdown import refresh
from pinyon_bench.placement import UNPINNED, place

OUTCOME = measure.Outcome(CONTENDERS[0], 5e-5, 1e-4, 6e-5, 1.1e-4, 3, 0.6, None, 0.001)


def test_waits_at_the_same_time_count_once() -> None:
    assert measure.covered([]) == 0
    assert measure.covered([(4, 5), (1, 2), (1.5, 3), (1.6, 1.7)]) == pytest.approx(3)


def test_the_table_is_put_between_the_marks(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nafter\n")
    refresh(document, "measured", page.table([OUTCOME]))
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| Pinyon | blocking | 1 | 50 | 100 | 60 | 110 | 1.10 | 3 | 0.60 | 0.1% | > 7 |" in text
    document.write_text("no marks")
    with pytest.raises(ValueError, match="has no"):
        refresh(document, "measured", "")


def test_clients_are_chosen_by_pattern() -> None:
    assert {each.client for each in parse(["failure", "--contestants", "p*"]).contenders} == {
        "Pinyon",
        "pylibmc",
        "pymemcache",
    }
    with pytest.raises(SystemExit):
        parse(["failure", "--contestants", "nobody"])


@pytest.mark.parametrize("contender", CONTENDERS[:4:3], ids=lambda contender: contender.name)
def test_a_run_in_short(contender: measure.Contender, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEALTHY_SECONDS", "STOPPED_SECONDS", "REST_SECONDS", "DEAD_SECONDS"):
        monkeypatch.setattr(measure, name, 0.5)
    monkeypatch.setattr(measure, "BACK_SECONDS", 10.0)
    outcome = measure.measure(contender, 1, place(UNPINNED))
    # However busy the machine is. A client that fails altogether misses everything.
    assert outcome.missed < 0.5
    assert outcome.timeouts >= 1
    assert outcome.lost >= TIMEOUT / 2
    assert outcome.back is not None
