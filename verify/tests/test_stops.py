"""Callers of Ruby and Perl that are stopped at random: what counts as wrong, and a few in every model."""

from __future__ import annotations

from typing import Any

import pytest

from pinyon_verify.cli import main
from pinyon_verify.stops.run import GROWTH, judge


def facts(**changes: Any) -> dict[str, Any]:
    left = {"descriptors": 8, "memory": 1}
    return {"findings": [], "counts": {"right": 1}, "before": left, "after": left, **changes}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"findings": ["key:1 is nil"]}, "value"),
        ({"counts": {}}, "work"),
        ({"after": {"descriptors": 9, "memory": 1}}, "descriptors"),
        ({"after": {"descriptors": 8, "memory": GROWTH + 2}}, "memory"),
        ({"leaked": {"values": 1000, "stops": 1000}}, "leak"),
    ],
)
def test_what_is_wrong_is_found(changes: dict[str, Any], kind: str) -> None:
    assert judge(facts()) == []
    assert [finding.partition(":")[0] for finding in judge(facts(**changes))] == [kind]


@pytest.mark.parametrize("language", ["ruby", "perl"])
def test_some_stopped_callers_in_every_model(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([language, "--quick"]) == 0, capsys.readouterr().out
