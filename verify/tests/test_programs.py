"""Programs of other languages: what is missing is said."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from pinyon_verify import programs
from pinyon_verify.locks.cell import Cell
from pinyon_verify.locks.cells import BUSY
from pinyon_verify.locks.run import line, run


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    programs._missing_in_perl.cache_clear()
    yield
    programs._missing_in_perl.cache_clear()


@pytest.mark.parametrize("language", ["perl", "ruby"])
def test_a_cell_without_its_language_is_skipped(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == language else which(name))
    result = run(Cell("missing", "", (BUSY.but(model=f"{language}-threads"),)), seed=1, seconds=1)
    assert line(result).split()[:2] == ["missing", "skipped:"]
    assert f"{language} is not installed" in result.skipped


def test_a_module_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(programs._PERL_MODULES, "perl-coro", "Not::Installed")
    with pytest.raises(programs.Missing, match="Not/Installed"):
        programs.of_locks("perl-coro")
