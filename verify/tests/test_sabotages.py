"""Sabotages fit the functions that clients load today."""

from __future__ import annotations

from pinyon_verify.locks.sabotage import SABOTAGES
from pinyon_verify.programs import ROOT


def test_the_lines_that_they_replace_exist() -> None:
    functions = [path.read_text() for path in (ROOT / "locks" / "src" / "lua").glob("*.lua")]
    lines = {line for each in SABOTAGES for line in (each.line, *(line for line, _ in each.others)) if line}
    assert lines and functions
    assert [line for line in lines if not any(line in function for function in functions)] == []
