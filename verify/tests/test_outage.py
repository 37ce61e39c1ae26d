"""A short outage of a site's database, and wrong sites."""

from __future__ import annotations

import pytest

from pinyon_verify.cli import main


def test_a_site_answers_while_its_database_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["outage", "--quick"]) == 0, capsys.readouterr().out


def test_wrong_sites_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["outage", "--sabotage"]) == 0, capsys.readouterr().out
