from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pinyon_bench.results import Document, ResultError, read, write
from pinyon_bench.tables import Table, tables
from pinyon_bench.terminal import print_document, print_table


def printed(document: Document) -> str:
    output = io.StringIO()
    print_document(document, Console(file=output, width=100, emoji=False))
    return output.getvalue()


def test_tables_come_from_what_was_written(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "new" / "result.json"
    write(document, path)
    assert read(path) == document
    text = printed(read(path))
    assert "absent: cannot be imported" in text and "multiget:10:1" in text
    assert max(map(len, text.splitlines())) <= 100


def test_rows_stand_below_each_other_and_contestants_beside_each_other(full: Document) -> None:
    found = {table.title: table for table in tables(full)}
    rates = found["Get and set by value size: operations per second, connected and warm"]
    assert rates.header[:3] == ["row", "Pinyon", "pylibmc"] and rates.header[-1] == "floor"
    assert [line[0] for line in rates.rows][:2] == ["set:36B", "get:36B"]
    assert found["Get and set by value size, processor time of the client, µs per operation"].header == rates.header


def test_the_terminal_ends_with_the_summary_and_cuts_nothing_off(full: Document) -> None:
    text = printed(full)
    lines = text.splitlines()
    assert lines[-1].endswith("targets are met.")
    assert (
        text.index("Contestants\n")
        < text.index("Pinyon and the fastest other client\n")
        < text.index("Missed targets\n")
    )
    assert "get, 36 bytes" in text and "get of 36 bytes, 36-byte key" in text
    assert "…" not in text and max(map(len, lines)) <= 100


def test_why_a_cell_is_empty_is_said(document: Document) -> None:
    assert Table("Not measured", ["client", "rows", "why"], [["slow", "multiget:10:1", "no get many"]]) in tables(
        document
    )


def test_a_wide_table_is_printed_in_parts() -> None:
    output = io.StringIO()
    wide = Table("wide", ["row", *"abcdefgh"], [["first", *("1,000,000" for _ in range(8))]])
    print_table(wide, Console(file=output, width=40))
    assert output.getvalue().count("first") == 4


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    for content in ("", "[]", '{"format": 1}'):
        path.write_text(content)
        with pytest.raises(ResultError, match="other.json"):
            read(path)
