"""PERFORMANCE.md, its tables and plots, and the report of a run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from shutil import copytree

import pytest
from made_up import narrowed

from pinyon_bench import performance, report
from pinyon_bench.cli import RECORD
from pinyon_bench.contestant import BENCH_FOLDER, REPOSITORY
from pinyon_bench.plots import BOUND_COLOUR, INK, OTHER_COLOURS, OUR_COLOUR, drawn
from pinyon_bench.results import ContestantInfo, Document, Instructions, read
from pinyon_bench.summary import missed
from pinyon_bench.tables import tables

LARGE_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+")
#: GitHub's pages, and the documentation's, which are less dark.
PAGES = ("#ffffff", "#0d1117", "#1e2129")
#: What the accessibility guidelines (WCAG 2) want of graphics and of large text.
LEAST_CONTRAST = 3.0


@pytest.fixture(scope="module")
def record() -> Document:
    """The record in the repository."""
    return read(RECORD)


@pytest.fixture(scope="module")
def rewritten(record: Document, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as the record writes them anew."""
    folder = tmp_path_factory.mktemp("pages")
    copytree(REPOSITORY / "docs" / "plots", folder / "docs" / "plots")
    for name in ("PERFORMANCE.md", "docs/performance-tables.md"):
        (folder / name).write_text((REPOSITORY / name).read_text(encoding="utf-8"), encoding="utf-8")
    performance.rewrite(record, folder)
    return folder


@pytest.mark.parametrize("name", ["PERFORMANCE.md", "docs/performance-tables.md"])
def test_the_pages_have_the_tables_of_the_record(rewritten: Path, name: str) -> None:
    assert (REPOSITORY / name).read_text(encoding="utf-8") == (rewritten / name).read_text(encoding="utf-8"), (
        "run `python -m pinyon_bench page`"
    )


def test_the_plots_in_the_repository_are_those_that_the_page_shows() -> None:
    shown = re.findall(
        r"!\[[^\]]+\]\(docs/plots/([^)]+)\)", (REPOSITORY / "PERFORMANCE.md").read_text(encoding="utf-8")
    )
    assert sorted(shown) == sorted(path.name for path in (REPOSITORY / "docs" / "plots").iterdir())
    assert sorted(shown) == sorted(f"{key}.svg" for key in performance.PLOTS)


def test_rates_in_the_readme_are_in_the_tables_of_the_record() -> None:
    known = set(LARGE_NUMBER.findall((REPOSITORY / "docs" / "performance-tables.md").read_text(encoding="utf-8")))
    lines = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    shown = {number for line in lines if line.startswith("|") for number in LARGE_NUMBER.findall(line)}
    assert shown <= known


def test_what_the_page_says_of_the_core_is_what_was_counted() -> None:
    text = " ".join((REPOSITORY / "PERFORMANCE.md").read_text(encoding="utf-8").split())
    assert "fewer than 3,000 instructions of the core" in text and text.count("less than 40 %") == 2
    counts = json.loads((BENCH_FOLDER / "instructions.json").read_text())["instructions"]
    for operation in ("get", "set"):
        assert counts[f"core:{operation}"] < 3_000
        assert counts[f"core:{operation}"] < 0.4 * counts[f"gevent:{operation}:64"]
        assert counts[f"c:{operation}"] < 0.4 * counts[f"perl:coro:{operation}:100"]


class Reader(HTMLParser):
    """Reads a page, and fails if tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_is_whole_and_needs_nothing_besides_itself(full: Document, tmp_path: Path) -> None:
    strange = '<b>&"strange'
    document = narrowed(full, "size", "gevent")
    contestants = [*document.contestants, ContestantInfo("another", absent=strange)]
    document = replace(document, contestants=contestants, instructions=Instructions("abc", {"blocking:get": 4_001}))
    page = Reader(report.write(document, tmp_path / "result.json").read_text(encoding="utf-8"))
    assert strange in page.text and all(table.title in page.text for table in tables(document))
    assert page.sources and all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert "targets are met." in page.text
    assert ["instructions", "blocking:get: at most 4,000", "4,001"] in missed(document).rows


def test_the_same_document_gives_the_same_plots_and_ours_has_its_colour(full: Document) -> None:
    keys = ("gevent-get", "locks-mutex-asyncio", "latency-gevent-get-16", "processor-get-36B")
    plots = drawn(full, keys)
    assert set(plots) == set(keys) and drawn(full, keys) == plots
    assert all(OUR_COLOUR in svg and "floor" in svg or "locks" in key for key, svg in plots.items())


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("page", PAGES)
def test_colours_stand_out_from_light_and_dark_pages(page: str) -> None:
    for colour in (OUR_COLOUR, BOUND_COLOUR, INK, *OTHER_COLOURS):
        darker, lighter = sorted((luminance(colour), luminance(page)))
        assert (lighter + 0.05) / (darker + 0.05) >= LEAST_CONTRAST, colour
