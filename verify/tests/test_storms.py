"""A small storm in every model."""

from __future__ import annotations

import pytest

from pinyon_verify.cli import main


def test_nothing_is_left_of_what_was_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storms", "--quick"]) == 0, capsys.readouterr().out
