"""PERFORMANCE.md and the page of tables: that they agree with each other, with README.md and with what was measured."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import narrowed, perl_document

from pinyon_bench import performance
from pinyon_bench.contestant import BENCH_FOLDER, REPOSITORY
from pinyon_bench.performance.markdown import read_tables, tables_page
from pinyon_bench.performance.summary import summary_page
from pinyon_bench.recorded.comparison import close_to_floor, slower, standing
from pinyon_bench.recorded.medians import Figures, medians
from pinyon_bench.recorded.missed import CORE_INSTRUCTIONS, CORE_SHARE, UNKNOWN, missed_targets
from pinyon_bench.recorded.record import MISSED, ROWS, TARGETS, Record, record_of
from pinyon_bench.report.figures import sections
from pinyon_bench.results import Document, ResultError

TABLES = REPOSITORY / performance.TABLES
PAGE = REPOSITORY / performance.PAGE
LARGE_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+")


@pytest.fixture(scope="module")
def record_with_perl() -> Record:
    """The record of a document that has Perl's rows."""
    return record_of(perl_document())


@pytest.fixture(scope="module")
def record() -> Record:
    """The record in the repository."""
    return read_tables(TABLES)


def test_the_page_in_the_repository_is_that_of_its_tables(record: Record) -> None:
    assert PAGE.read_text(encoding="utf-8") == summary_page(record), "run `python -m pinyon_bench page`"
    assert TABLES.read_text(encoding="utf-8") == tables_page(record)


def test_the_plots_in_the_repository_are_those_that_the_page_shows(record: Record) -> None:
    shown = re.findall(r"!\[[^\]]+\]\(docs/plots/([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.name for path in (REPOSITORY / "docs" / "plots").iterdir())
    assert {f"{plot.key}.svg" for section in sections(medians(record)) for plot in section.main_plots} == set(shown)


@pytest.mark.parametrize("name", ["PERFORMANCE.md", "README.md"])
def test_rates_in_tables_of_a_page_are_in_the_tables_of_the_record(name: str) -> None:
    known = set(LARGE_NUMBER.findall(TABLES.read_text(encoding="utf-8")))
    lines = (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    shown = {number for line in lines if line.startswith("|") for number in LARGE_NUMBER.findall(line)}
    assert shown <= known, f"{name} has figures that no table has: {sorted(shown - known)}"


def test_what_is_written_is_read_again(full: Document, tmp_path: Path) -> None:
    tables, page = performance.write(full, tmp_path)
    found = read_tables(tables)
    assert tables_page(found) == tables.read_text(encoding="utf-8") == tables_page(record_of(full))
    assert summary_page(found) == page.read_text(encoding="utf-8")


def test_another_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    with pytest.raises(ResultError, match="other.md"):
        read_tables(other)
    other.write_text("# Performance tables\n\nNothing was measured.\n")
    with pytest.raises(ResultError, match="not a page of performance tables"):
        read_tables(other)


def test_figures_are_those_of_the_document(full: Document) -> None:
    figures = Figures(record_of(full))
    assert set(figures.contestants) == {info.name for info in full.contestants}
    measured = {(sample.row, sample.contestant) for sample in full.samples}
    untold = {cell for cell in measured - set(figures.rates) if "ping" not in cell[0] and "handover" not in cell[0]}
    assert not untold and set(figures.rates) <= measured
    with_latency = {(each.row, each.contestant) for each in full.samples if each.latency}
    assert {cell for cell in with_latency if cell[0].startswith(("gevent", "asyncio", "uvloop"))} < set(
        figures.latencies
    )
    assert ("locks:handover:8", "Pinyon script") in figures.latencies


def test_every_table_and_row_is_labelled(record: Record, full: Document) -> None:
    for each in (record, record_of(full)):
        about = {line[0]: line[1] for line in each.grid(ROWS).rows}
        for grid in each.grids:
            assert all(grid.header), grid.title
            assert all(line[0] for line in grid.rows), grid.title
        for row, text in about.items():
            assert text or row.startswith(("local", "slow", "gevent", "asyncio", "uvloop")), row
            assert not text.startswith("the same"), row
        assert {row for row, _ in Figures(each).rates} <= set(about)
    assert all(text for text in {line[1] for line in record.grid(ROWS).rows})


def test_every_missed_target_says_why(record: Record) -> None:
    found = missed_targets(record)
    wanted = [line for line in record.grid(TARGETS).rows if line[2] == MISSED]
    assert [line for each in found for line in each.lines if line in wanted] and found
    assert sum(len(each.lines) for each in found) == len(wanted)
    assert [each.lines for each in found if each.why == UNKNOWN] == []
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"| {line[3]}" in page for line in wanted)


def test_a_miss_without_a_reason_is_not_explained_away(record: Record) -> None:
    sun = ["get:36B", "at least 9 times the sun", MISSED, "0.1", ""]
    assert [each.why for each in missed_targets(with_targets(record, sun))] == [UNKNOWN]


@pytest.mark.parametrize(
    ("row", "target", "says"),
    [
        ("set:36B", "at least 0.95 of the floor's rate", "releasing the GIL"),
        ("get:100KB", "at least 0.85 of the floor's rate", "most of the rest is the server's"),
        ("multiget:100:4 to :1", "at least 0.95 of the floor's own ratio", "from several"),
        ("gevent:get:16", "at least 0.45 of the floor's rate", "the greenlet switch"),
        ("uvloop:get:16", "at least 0.45 of the floor's rate", "The server works on the same core"),
        ("locks:pair:1", "at least 0.8 of the floor's rate", "neither a queue nor tokens"),
        ("ruby:set:36B", "at least 0.92 of the floor's rate", "µs of Pinyon's processor time and the floor"),
        ("ruby:multiget:100:1", "CPU per operation at most Dalli's", "µs of Pinyon's processor time and the floor"),
        ("ruby:eventmachine:get:64", "at most 0.1 system calls per operation", "next_tick"),
        ("gevent:get", "never slower with more greenlets; worst step: 64 to 256", "a copy of its stack"),
    ],
)
def test_targets_that_are_missed_now_and_then_have_reasons(record: Record, row: str, target: str, says: str) -> None:
    (missed,) = missed_targets(with_targets(record, [row, target, MISSED, "0.9", ""]))
    assert says in missed.why and "nan" not in missed.why


@pytest.mark.parametrize(
    ("row", "target", "says"),
    [
        ("perl:get:64B", "at least 0.92 of the floor's rate", "two system calls in all of them"),
        ("perl:multiget:100:1", "at least 0.65 of the floor's rate", "another attempt"),
        ("perl:multiset:100:1", "at least 0.55 of the floor's rate", "the floor, which has no Perl"),
        ("perl:setq:plain", "CPU per operation at most Cache::Memcached::Fast's", "Perl code"),
        ("perl:loops:local:set:64B:100 anyevent", "at least 0.25 of the floor's rate", "no Perl and no callbacks"),
        ("perl:loops:local:get:64B:100 coro", "at least 0.2 of the floor's rate", "Coro's change"),
        ("perl:loops:slow:get:64B:100 coro", "at least 95 times one coroutine", "one round trip"),
        ("locks:pair:1 perl", "at least 0.75 of the floor's rate", "neither a queue nor tokens"),
        ("locks:pair:1 ruby", "at least 0.7 of the floor's rate", "neither a queue nor tokens"),
    ],
)
def test_targets_of_perl_have_reasons(record_with_perl: Record, row: str, target: str, says: str) -> None:
    (missed,) = missed_targets(with_targets(record_with_perl, [row, target, MISSED, "0.9", ""]))
    assert says in missed.why and "nan" not in missed.why


def test_a_reason_leaves_out_clients_that_were_not_measured(full: Document) -> None:
    samples = [sample for sample in full.samples if sample.contestant != "bare socket"]
    few = with_targets(
        record_of(replace(full, samples=samples)), ["get:36B", "at least 0.95 of the floor's rate", MISSED, "0.9", ""]
    )
    (missed,) = missed_targets(few)
    assert missed.why != UNKNOWN and "bare socket" not in missed.why


def with_targets(record: Record, *rows: list[str]) -> Record:
    grids = [replace(grid, rows=list(rows)) if grid.title == TARGETS else grid for grid in record.grids]
    return replace(record, grids=grids)


def test_a_reason_claims_nothing_that_was_not_measured(full: Document) -> None:
    near = [row for row in full.rows if ":far:" not in row.name]
    names = {row.name for row in near}
    without = replace(full, rows=near, samples=[sample for sample in full.samples if sample.row in names])
    whys = [
        next(each.why for each in missed_targets(record_of(document)) if each.lines[0][0] == "locks:handover:8")
        for document in (full, without)
    ]
    assert "Over a link of 2 ms" in whys[0] and "Over a link" not in whys[1] and "–" not in whys[1]


def test_one_round_is_read_again(full: Document, tmp_path: Path) -> None:
    tables, page = performance.write(replace(narrowed(full, "size"), rounds=1, placement="two-cores"), tmp_path)
    assert read_tables(tables).rounds == 1
    text = page.read_text(encoding="utf-8")
    assert ", at most 1 round." in text and "share one core" not in text


def test_the_share_of_the_core_is_what_was_counted() -> None:
    counted = json.loads((BENCH_FOLDER / "instructions.json").read_text())["instructions"]
    for operation in ("get", "set"):
        assert counted[f"core:{operation}"] < CORE_INSTRUCTIONS
        for greenlets in (16, 64):
            assert counted[f"core:{operation}"] < CORE_SHARE * counted[f"gevent:{operation}:{greenlets}"]
        assert counted[f"core:{operation}"] < CORE_SHARE * counted[f"perl:coro:{operation}:100"]


def test_rows_as_fast_as_the_floor_are_those_that_the_tables_say(record: Record) -> None:
    shares = {
        line[0]: float(found[1])
        for grid in record.grids
        if grid.header[:2][-1] == "Pinyon" and "floor" in grid.header
        for line in grid.rows
        if "\n" not in line[0] and (found := re.fullmatch(r"[\d,]+\n~?([\d.]+)", line[1]))
    }
    rows = close_to_floor(Figures(record))
    assert shares and {row for row, share in shares.items() if share >= 0.95} == shares.keys() & set(rows)
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"`{row}`" in page for row in rows)


def test_a_faster_client_is_named(full: Document) -> None:
    few = narrowed(full, "size")
    quick = [
        replace(each, wall=each.wall / 3) if (each.row, each.contestant) == ("get:36B", "libmc") else each
        for each in few.samples
    ]
    before, after = (Figures(record_of(document)) for document in (few, replace(few, samples=quick)))
    assert "libmc" not in {found.other for found in slower(before)}
    assert [(found.row, found.other) for found in slower(after)] == [("get:36B", "libmc")]
    found = standing(after, "get:36B", "Pinyon")
    assert found and found.factor < 0.5 and not found.same
