"""Sabotages fit the functions that clients load today."""

from __future__ import annotations

from pinyon_verify.locks.sabotage import as_loaded
from pinyon_verify.locks.sabotages import ALL_SABOTAGES
from pinyon_verify.programs import ROOT


def test_the_lines_that_they_replace_exist() -> None:
    functions = [as_loaded(path.read_text()) for path in (ROOT / "locks" / "src" / "lua").glob("*.lua")]
    lines = {line for each in ALL_SABOTAGES for line in (each.line, *(line for line, _ in each.others)) if line}
    assert lines and functions
    assert [line for line in lines if not any(as_loaded(line) in function for function in functions)] == []
