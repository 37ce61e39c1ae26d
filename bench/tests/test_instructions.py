from __future__ import annotations

import argparse
import io
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from rich.console import Console

from pinyon_bench.instructions import record as records
from pinyon_bench.instructions import verb
from pinyon_bench.instructions.callgrind import MORE, ROUNDS, CountError, count, figures, total
from pinyon_bench.instructions.goals import AT_MOST

HERE = {"processor": "x86_64", "rustc": "1.85.0"}
NAMES = ("core:get", "core:set")
SETUP = 1_000_000
needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")


def parts(each: int, few: int, disturbed: int = 0) -> list[int]:
    """The counts of callgrind for an operation of `each` instructions, with all rounds but one disturbed."""
    runs = [40 + each * few, 40 + each * few * MORE]
    return [SETUP, *([run + disturbed for run in runs] * (ROUNDS - 1)), *runs]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, int]:
    """A record of 1,000 instructions per operation, and the future counts, which a test may change."""
    now = dict.fromkeys(NAMES, 1000)
    monkeypatch.setattr(records, "built_with", lambda: HERE)
    monkeypatch.setattr(records, "FILE", tmp_path / "instructions.json")
    monkeypatch.setattr(verb, "count_all", lambda: now)
    records.write(now, records.FILE)
    return now


def run(check: bool) -> str:
    output = io.StringIO()
    verb.instructions(argparse.Namespace(check=check), Console(file=output, width=1000))
    return output.getvalue()


def test_a_figure_is_what_the_longer_runs_take_more_in_the_least_disturbed_round() -> None:
    printed = f"core:get\t{10 * (MORE - 1)}\ncore:set\t{20 * (MORE - 1)}\n"
    assert figures(printed, parts(250, 10) + parts(300, 20, disturbed=999)) == {"core:get": 250, "core:set": 300}


def test_a_program_that_was_not_counted_whole_has_no_figures() -> None:
    with pytest.raises(CountError, match="1 operations were done, and 10 parts"):
        figures("core:get\t20\n", parts(250, 10)[1:])


def test_totals_are_read_from_callgrinds_file() -> None:
    assert total("# callgrind format\nevents: Ir\n\nfn=(1) totals: 5\n1 7\n\ntotals: 1234\n") == 1234
    with pytest.raises(CountError, match="without totals"):
        total("# callgrind format\n")


@needs_valgrind
def test_a_program_is_counted_under_callgrind() -> None:
    work = f"""
import os
for round in range({ROUNDS}):
    for times in (1000, 1000 * {MORE}):
        os.getppid()
        for number in range(times): pass
os.getppid()
print("loop", 1000 * ({MORE} - 1), sep="\\t")
"""
    counted = count([sys.executable, "-S", "-c", work])
    assert list(counted) == ["loop"] and 5 < counted["loop"] < 500


@needs_valgrind
def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(CountError, match="no such operation"):
        count([sys.executable, "-S", "-c", "raise SystemExit('no such operation')"])


def test_a_record_is_read_as_it_was_written(counted: dict[str, int]) -> None:
    record = records.read(records.FILE)
    assert record.instructions == counted and record.built_with == HERE
    assert record.commit.split()[0] == records.commit().split()[0]


@pytest.mark.parametrize("text", ["", "[]", '{"commit": "abc"}'])
def test_what_is_no_record_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "instructions.json"
    path.write_text(text)
    with pytest.raises(CountError, match=r"instructions\.json is not a record .* another: make bench-instructions"):
        records.read(path)


@pytest.mark.parametrize("now", [951, 1000, 1049])
def test_less_than_five_percent_either_way_pass_in_silence(counted: dict[str, int], now: int) -> None:
    counted["core:get"] = now
    assert "make" not in run(check=True)


def test_an_operation_that_has_grown_fails_the_check(counted: dict[str, int]) -> None:
    counted["core:get"] = 1051
    with pytest.raises(CountError) as failed:
        run(check=True)
    message = str(failed.value)
    assert "core:get took 1,000 instructions, and takes 1,051 now (+5.1%)" in message
    assert "make bench-instructions" in message and "core:set" not in message


def test_writing_the_record_anew_is_how_growth_is_accepted(counted: dict[str, int]) -> None:
    counted["core:get"] = 2000
    assert "+100.0%" in run(check=False)
    assert "make" not in run(check=True)


def test_a_gain_that_is_not_recorded_is_told_and_passes(counted: dict[str, int]) -> None:
    counted["core:get"] = 949
    assert "core:get took 1,000 instructions, and takes 949 now (-5.1%)" in run(check=True)


def test_the_record_has_the_operations_that_are_counted(counted: dict[str, int]) -> None:
    counted["core:incr"] = counted.pop("core:set")
    with pytest.raises(
        CountError, match="core:incr is not in the record\n  core:set is in the record and was not counted"
    ):
        run(check=True)


def test_figures_from_elsewhere_are_not_compared(counted: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    counted["core:get"] = 2000
    monkeypatch.setattr(records, "built_with", lambda: {**HERE, "rustc": "1.99.0"})
    told = run(check=True)
    assert "not compared" in told and "rustc 1.85.0 there, 1.99.0 here" in told and "x86_64" not in told


@pytest.mark.parametrize(("row", "condition"), [("ruby:get", "ruby"), ("perl:coro:get:16", "perl"), ("c:get", "cc")])
def test_a_language_of_another_version_leaves_the_other_rows_compared(
    counted: dict[str, int], monkeypatch: pytest.MonkeyPatch, row: str, condition: str
) -> None:
    counted[row] = 1000
    records.write(counted, records.FILE)
    counted[row] = 2000
    monkeypatch.setattr(records, "built_with", lambda: {**HERE, condition: "3.1.2"})
    told = run(check=True)
    assert "other languages' rows are compared" in told and f"{condition} none there, 3.1.2 here" in told
    assert "core:get" in told and row not in told
    counted["core:get"] = 2000
    with pytest.raises(CountError, match="core:get took 1,000"):
        run(check=True)


def test_every_target_of_instructions_is_about_operations_of_the_record_and_is_met() -> None:
    counts = records.counted().counts
    for pattern, most in AT_MOST.items():
        found = {name: count for name, count in counts.items() if fnmatchcase(name, pattern)}
        assert found, pattern
        assert max(found.values()) <= most, found
