from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pinyon_bench import grids
from pinyon_bench.history import published
from pinyon_bench.performance.markdown import tables_page
from pinyon_bench.recorded.record import record_of
from pinyon_bench.results import Document, ResultError, read, write
from pinyon_bench.step_rows import seed_rows
from pinyon_bench.tables import print_tables


def test_the_seeds_layout(document: Document) -> None:
    lines = grids.seed_lines(document)
    assert lines[0] == "Testing fast 1.0"
    assert lines[1].startswith(" " * 37 + "user     system      total        real")
    assert lines[2].startswith("set:plain:fast                   0.075000   0.075000   0.150000 (  0.300000)")
    assert all(len(line) <= 100 for line in lines)


def test_noise_and_gaps_are_said_in_words(document: Document) -> None:
    assert grids.noise_sentences(document) == ["get:plain: fast and slow are the same within noise."]
    assert grids.gap_sentences(document) == ["slow: multiget:10:1: no get many"]


def test_tables_come_from_what_was_written(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "new" / "result.json"
    write(document, path)
    assert read(path) == document
    output = io.StringIO()
    print_tables(read(path), Console(file=output, width=100, emoji=False))
    text = output.getvalue()
    assert "absent: cannot be imported" in text and "multiget:10:1" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_terminal_leads_with_findings_and_cuts_nothing_off(full: Document) -> None:
    output = io.StringIO()
    print_tables(full, Console(file=output, width=100, emoji=False))
    lines = output.getvalue().splitlines()
    assert [number for number, line in enumerate(lines) if line.endswith("targets are met.")] == [3, len(lines) - 1]
    assert lines[4].startswith("missed ")
    text = "\n".join(lines)
    assert text.index("The floor is a minimal") < text.index("Contestants\n")
    assert "get of 36 bytes, 36-byte key" in text
    assert "…" not in text and max(map(len, lines)) <= 100


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    for content in ("", "[]", '{"format": 1}'):
        path.write_text(content)
        with pytest.raises(ResultError, match="other.json"):
            read(path)


def test_the_page_has_every_section(document: Document) -> None:
    page = tables_page(record_of(document))
    for wanted in (
        "A Processor",
        "## How to read the tables",
        "## Dalli's ten rows in the layout of seed 000",
        "## Not measured",
        "## History",
    ):
        assert wanted in page


def test_history_knows_every_row_of_the_seeds() -> None:
    names = {row.name for row in seed_rows()}
    assert all(set(each.figures) <= names for each in published())
    assert sum(len(each.figures) for each in published()) == 62
