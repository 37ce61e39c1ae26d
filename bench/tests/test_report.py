"""The report page and its plots, for an invented document with every group of rows."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up import narrowed

from pinyon_bench import performance, report
from pinyon_bench.catalogue import targets
from pinyon_bench.contents import tables
from pinyon_bench.coroutines.rows import pairs_rows
from pinyon_bench.report.clients import client_of
from pinyon_bench.report.figures import sections
from pinyon_bench.report.headline import headlines
from pinyon_bench.report.page import page
from pinyon_bench.results import ContestantInfo, Document, Gap, Instructions, Sample, read, write

#: What is written in a plot, without the value that follows the name of a curve.
NAME = re.compile(r">([^<>]+?)(?: [\d.]+[kM]?)?</text>")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Reader(HTMLParser):
    """Reads a page, and records its elements, text and references. Fails if tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.identifiers: list[str] = []
        self.targets: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.identifiers += [value or "" for name, value in attributes if name == "id"]
        self.targets += [value or "" for name, value in attributes if name in ("src", "href", "xlink:href", "data")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="session")
def written(full: Document, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the full document."""
    return report.write(full, tmp_path_factory.mktemp("results") / "result.json")


def test_the_page_is_whole_and_says_who_took_part(full: Document, written: Path) -> None:
    assert written.name == "result.html"
    read = Reader(written.read_text(encoding="utf-8"))
    assert len(read.identifiers) == len(set(read.identifiers))
    assert read.names.count("svg") > 20
    for info in full.contestants:
        assert client_of(info.name) in read.text
    for target in targets(full):
        assert target.row in read.text and target.wanted in read.text


def test_the_page_needs_nothing_besides_itself(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    read = Reader(text)
    assert not {"script", "link", "iframe", "object", "img"} & set(read.names)
    assert all(target.startswith("#") and target[1:] in read.identifiers for target in read.targets)
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    assert text.count("://") == text.count(' xmlns="http://www.w3.org/2000/svg"')


def test_the_page_leads_with_findings_and_explains_its_words_first(full: Document, written: Path) -> None:
    text = Reader(written.read_text(encoding="utf-8")).text
    missed = [target for target in targets(full) if not target.met]
    verdict = f"{len(targets(full)) - len(missed)} of {len(targets(full))} targets are met"
    places = [
        text.index(words)
        for words in (verdict, "The floor is a minimal", "A seed is a published", f"{missed[0].wanted}: measured")
    ]
    assert places == sorted(places) and places[-1] < text.index("Operations per second of coroutines")
    assert text.index("floor") > places[0]


def test_every_row_of_the_page_is_labelled(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    labels = re.findall(r'<th scope="row">(.*?)</th>', text, re.DOTALL)
    assert len(labels) > 100 and all(label.strip() for label in labels)
    assert "<small>get of 36 bytes, 36-byte key</small>" in "".join(labels)
    assert not re.search(r'<th scope="col"[^>]*></th>', text)


def test_findings_are_those_of_the_document(full: Document) -> None:
    quick = [replace(each, wall=each.wall / 8) if each.contestant == "libmc gevent" else each for each in full.samples]
    before, after = (
        sections(narrowed(document, "gevent"))[0].plots[0] for document in (full, replace(full, samples=quick))
    )
    assert re.match(
        r"With 16 coroutines, Pinyon reaches [\d,]+ operations per second, [2-9]\.\d+ times", before.finding
    )
    assert re.search(r", 0\.\d\d times the rate of libmc, the fastest other client, ", after.finding)
    assert before.svg != after.svg


CARD = re.compile(
    r"<strong>([\d.]+)×</strong> <b>([^<]+)</b> <span>\D* ([\d,]+)\D+? ([\d,]+)[^<]*</span> <span>([^<]+)</span>"
)


def test_the_factor_of_a_card_is_that_of_its_rates(full: Document) -> None:
    chance = random.Random(1)
    uneven = [replace(sample, wall=sample.wall * chance.uniform(1, 4)) for sample in full.samples]
    for document in (full, replace(full, samples=uneven)):
        cards = CARD.findall(page(document))
        assert len(cards) == len(headlines(document)) > 8
        for factor, what, ours, other, spread in cards:
            shown = float(ours.replace(",", "")) / float(other.replace(",", ""))
            assert shown == pytest.approx(float(factor), rel=0.03), what
            assert re.match(r"[\d.]+ to [\d.]+ in [123] rounds?", spread), what


def test_a_client_that_was_dropped_from_a_row_is_named_on_its_card_and_its_plot(full: Document) -> None:
    few = narrowed(full, "uvloop")
    dropped = Gap("uvloop:get:16", "emcache autobatch uvloop", "the servers counted 5 gets instead of 9", False)
    lacking = Gap("uvloop:get:16", "memcachio uvloop", "no get", True)
    absent = ContestantInfo("aiomcache uvloop", absent="cannot be imported")
    others = [info for info in few.contestants if info.name != absent.name]
    document = replace(few, gaps=[dropped, lacking], contestants=[*others, absent])
    (card,) = (each for each in headlines(document) if each.what == "uvloop: get, 16 at once")
    says = "emcache autobatch uvloop: not measured, the servers counted 5 gets instead of 9"
    assert card.dropped == ("aiomcache uvloop: not measured, cannot be imported", says)
    assert says in page(document)
    plot = next(plot for plot in sections(document)[0].plots if plot.key == "concurrency-uvloop-get")
    assert f"{says}." in plot.finding


def test_a_table_says_in_how_many_rounds_its_rows_were_timed(full: Document) -> None:
    samples = [each for each in full.samples if not (each.row.startswith("slow:") and each.round > 2)]
    samples = [each for each in samples if not (each.row == "slow:get:64B:100" and each.round > 1)]
    notes = {grid.title: grid.note for grid in tables(replace(full, samples=samples))}
    assert notes["gevent: pairs of UUIDs (seed 002), operations per second"].endswith(" 3 rounds.")
    assert notes["Values by size, slow link (seed 003), operations per second"].endswith(" 1 to 2 rounds.")
    assert notes["Locks: Redis's work per cycle"].endswith(" 3 rounds.")


def test_instructions_are_targets_and_a_table(full: Document, tmp_path: Path) -> None:
    document = replace(full, instructions=Instructions("abc", {"blocking:get": 3_000, "c:get": 9_000, "other": 5}))
    found = {target.text: target.met for target in targets(document) if target.row == "instructions"}
    assert found == {
        "instructions: blocking:get: at most 4,000": True,
        "instructions: c:get: at most 3,000": False,
    }
    (grid,) = (grid for grid in tables(document) if grid.title == "Instructions per operation")
    assert grid.rows == [["blocking:get", "3,000", "4,000"], ["c:get", "9,000", "3,000"], ["other", "5", "–"]]
    write(document, tmp_path / "result.json")
    assert read(tmp_path / "result.json") == document


def test_threads_have_a_plot_and_a_card(full: Document) -> None:
    rows = [row.info() for row in pairs_rows(short=True) if row.group == "threads"]
    names = {"Pinyon": 1e-5, "pylibmc ClientPool": 2e-5, "pylibmc ThreadMappedPool": 3e-5}
    samples = [
        Sample(number, row.name, name, 1000, 1000 * each, 0.001, 0.001)
        for row in rows
        for name, each in names.items()
        for number in (1, 2)
    ]
    contestants = [ContestantInfo(name, "1.0") for name in names]
    document = replace(narrowed(full), rows=rows, samples=samples, contestants=contestants)
    (card,) = headlines(document)
    assert (card.what, card.factor) == ("32 threads on one client: get", "2.00×")
    plots = {plot.key: plot for section in sections(document) for plot in section.plots}
    assert {"Pinyon", "pylibmc ClientPool", "pylibmc ThreadMappedPool"} <= set(
        NAME.findall(plots["concurrency-threads-get"].svg)
    )
    assert plots["concurrency-threads-get"].finding.startswith("With 32 threads, Pinyon reaches 100,000")


def test_the_first_column_of_a_table_stays_in_sight(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    assert re.search(r"tbody th, thead th:first-child \{ position: sticky; left:", text)


def test_blocking_calls_belong_to_the_curve_of_the_same_client(full: Document) -> None:
    plot = sections(narrowed(full, "gevent"))[0].plots[0]
    names = NAME.findall(plot.svg)
    assert {"pylibmc", "floor", "blocking"} < set(names)
    assert names.count("Pinyon") == 1 and "Pinyon gevent" not in names


def test_a_document_without_coroutines_has_fewer_plots(full: Document, document: Document) -> None:
    fewer = narrowed(full, "seed", "size", "multiget")
    assert [section.key for section in sections(fewer)] == ["processor", "size", "multiget"]
    for other in (document, replace(document, samples=[], rows=[])):
        Reader(page(other))


def test_locks_have_plots_of_each_model_and_a_finding(full: Document) -> None:
    found = {plot.key: plot for section in sections(full) if section.key == "locks" for plot in section.plots}
    assert {"locks-mutex-asyncio", "locks-section-gevent", "locks-handover", "locks-commands-10-19"} < set(found)
    names = set(NAME.findall(found["locks-mutex-asyncio"].svg))
    assert {"Pinyon script", "Pinyon pure", "redis-py", "aioredlock", "coredis"} < names
    assert "Pinyon" not in names and "pottery" not in names
    assert re.match(
        r"With 1 name, Pinyon script completes [\d,]+ cycles per second, [\d.]+ times the rate of redis-py",
        found["locks-mutex-asyncio"].finding,
    )
    assert "Pinyon script sends 2.00 commands per cycle" in found["locks-commands-10-19"].finding
    assert re.search(r"8 processes .* In round trips that is [\d.]+ and [\d.]+; ", found["locks-handover"].finding)


def test_every_missed_target_says_what_its_row_does(full: Document) -> None:
    slow = [
        replace(sample, wall=1000 * sample.wall) if sample.contestant.startswith("Pinyon") else sample
        for sample in full.samples
    ]
    text = page(replace(full, samples=slow))
    missed = re.findall(r"<p><b>([^<]+)</b>(?: <small>(.*?)</small>)?<br>", text)
    assert len(missed) > 20
    assert [row for row, about in missed if not about] == []


def test_text_of_the_document_is_escaped(full: Document) -> None:
    odd = "<em>&$x_1$"

    def renamed(name: str) -> str:
        return name.replace("pymemcache", odd)

    few = narrowed(full, "gevent", "size")
    samples = [replace(sample, contestant=renamed(sample.contestant)) for sample in few.samples]
    contestants = [replace(info, name=renamed(info.name), configuration=odd) for info in few.contestants]
    text = page(replace(few, samples=samples, contestants=contestants, command=odd))
    assert len(re.findall(f">{re.escape(escape(odd))}(, \\d+| [\\d.]+[kM]?)?</text>", text)) > 5
    read = Reader(text)
    assert read.text.count(odd) > 20
    assert "em" not in read.names


def test_the_same_document_gives_the_same_plots(full: Document, tmp_path: Path) -> None:
    few, folder = narrowed(full, "gevent", "size"), tmp_path / "docs" / "plots"
    performance.write(few, tmp_path)
    first = {file.name: file.read_bytes() for file in folder.iterdir()}
    (folder / "of-an-earlier-record.svg").write_text("<svg/>")
    performance.write(few, tmp_path)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == first
    shown = re.findall(r"!\[[^\]]+\]\(docs/plots/([^)]+)\)", (tmp_path / "PERFORMANCE.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(first) != []
    assert max(map(len, first.values())) < 40_000
