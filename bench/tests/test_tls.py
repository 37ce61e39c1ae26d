from __future__ import annotations

import io

import pytest
from rich.console import Console

from pinyon_bench import tls
from pinyon_bench.placement import UNPINNED, place


def test_every_row_is_measured_plain_and_with_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "CELL_SECONDS", 0.005)
    out = io.StringIO()
    tls.measure(1, place(UNPINNED), Console(file=out, width=100))
    for row in tls.ROWS:
        assert f" {row.name} " in out.getvalue()
