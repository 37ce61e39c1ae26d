from __future__ import annotations

import pytest

from pinyon_bench.cli import RECORD_ROUNDS, RUN_ROUNDS, parse
from pinyon_bench.rows import all_rows


def test_no_verb_means_run() -> None:
    assert parse([]).verb == "run"
    assert parse(["--rounds", "2"]).rounds == 2
    assert (parse([]).rounds, parse(["record"]).rounds) == (RUN_ROUNDS, RECORD_ROUNDS)
    assert parse([]).rows == all_rows()


def test_rows_are_chosen_by_name_pattern_or_group() -> None:
    assert [row.name for row in parse(["--rows", "get:36B,incr"]).rows] == ["incr", "get:36B"]
    assert {row.group for row in parse(["--rows", "size"]).rows} == {"size"}
    assert all(row.name.startswith("get:") for row in parse(["--rows", "get:*"]).rows)


def test_contestants_keep_their_order() -> None:
    names = [entry.name for entry in parse(["--contestants", "floor, pinyon"]).contestants]
    assert names == ["Pinyon", "floor"]


@pytest.mark.parametrize(
    "arguments",
    [["frob"], ["--rows", "nothing"], ["--rows", ","], ["--contestants", "nobody"], ["--rounds", "0"], ["tables"]],
)
def test_bad_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(arguments)
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err
