from __future__ import annotations

import pytest

from pinyon_bench.cli import RECORD_ROUNDS, RUN_ROUNDS, parse
from pinyon_bench.coroutines.rows import PairsRow
from pinyon_bench.step_rows import step_rows


def test_no_verb_means_run() -> None:
    assert parse([]).verb == "run"
    assert parse(["--rounds", "2"]).rounds == 2
    assert (parse([]).rounds, parse(["record"]).rounds) == (RUN_ROUNDS, RECORD_ROUNDS)
    assert parse([]).rows[: len(step_rows())] == step_rows()


def test_run_takes_few_of_the_coroutines_rows_and_record_all() -> None:
    few, all_of_them = ({row.name: row for row in parse([verb]).rows} for verb in ("run", "record"))
    assert {"gevent:get:16", "slow:get:10KB:100"} <= set(few) < set(all_of_them)
    assert isinstance(few["gevent:get:16"], PairsRow) and few["gevent:get:16"].count == 2_500
    assert isinstance(all_of_them["gevent:get:16"], PairsRow) and all_of_them["gevent:get:16"].count == 25_000
    assert [row.name for row in parse(["--rows", "uvloop:set:8"]).rows] == ["uvloop:set:8"]


def test_locks_run_short_or_long() -> None:
    few, all_of_them = ({row.name: row for row in parse(["locks", *quick]).rows} for quick in (["--quick"], []))
    assert {"locks:mutex:1/1", "locks:handover:8", "locks:ping"} <= set(few) < set(all_of_them)
    assert set(few) <= {row.name for row in parse([]).rows} and set(all_of_them) <= {
        row.name for row in parse(["record"]).rows
    }
    assert [row.name for row in parse(["locks", "--rows", "locks:pair:*"]).rows] == [
        f"locks:pair:{keys}" for keys in (1, 2, 3, 5, 10)
    ]
    assert {row.group.partition(":")[0] for row in parse(["--rows", "locks"]).rows} == {"locks"}


def test_rows_are_chosen_by_name_pattern_or_group() -> None:
    assert [row.name for row in parse(["--rows", "get:36B,incr"]).rows] == ["incr", "get:36B"]
    assert {row.group for row in parse(["--rows", "size"]).rows} == {"size"}
    assert all(row.name.startswith("get:") for row in parse(["--rows", "get:*"]).rows)


def test_contestants_keep_their_order() -> None:
    names = [entry.name for entry in parse(["--contestants", "floor, pinyon"]).contestants]
    assert names == ["Pinyon", "floor"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["coroutines", "0"],
        ["coroutines", "2000000"],
        ["frob"],
        ["--rows", "nothing"],
        ["--rows", ","],
        ["locks", "--rows", "seed"],
        ["--contestants", "nobody"],
        ["--rounds", "0"],
        ["tables"],
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(arguments)
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_tls_takes_rounds_and_a_placement() -> None:
    options = parse(["tls", "--rounds", "2", "--placement", "unpinned"])
    assert (options.verb, options.rounds, options.placement) == ("tls", 2, "unpinned")
    assert parse(["tls"]).rounds == RECORD_ROUNDS
