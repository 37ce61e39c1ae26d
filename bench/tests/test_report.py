"""The report page and its plots, for an invented document with every group of rows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pinyon_bench import performance, report
from pinyon_bench.catalogue import targets
from pinyon_bench.locks.rows import lock_rows
from pinyon_bench.report.clients import client_of
from pinyon_bench.report.figures import sections
from pinyon_bench.report.page import page
from pinyon_bench.results import ContestantInfo, Document, Handovers, Latency, Machine, RowInfo, Sample, ServerWork
from pinyon_bench.step_rows import step_rows

ROUNDS = 3
CONCURRENCIES = (0, 1, 16, 64, 256)
SIZES = {"36B": 36, "64B": 64, "10KB": 10_240, "100KB": 102_400}
# Microseconds of one blocking call, and those that a coroutine library adds.
COSTS = {
    "Pinyon": 17.0,
    "pylibmc": 18.2,
    "pymemcache": 22.0,
    "python-memcached": 25.0,
    "libmc": 19.5,
    "meta-memcache": 23.0,
    "floor": 16.2,
}

DRIVEN = {
    "gevent": ("Pinyon", "pylibmc", "pymemcache", "libmc"),
    "asyncio": ("Pinyon", "emcache", "emcache autobatch", "aiomcache", "memcachio"),
}
DRIVEN["uvloop"] = DRIVEN["asyncio"]
# Microseconds to lock and unlock one key, and the commands per key; None: one command for all keys.
LOCKING = {
    "Pinyon script": (45.0, 0),
    "Pinyon pure": (70.0, 0),
    "redis-py": (160.0, 2),
    "python-redis-lock": (190.0, 3),
    "redlock-py": (150.0, 2),
    "pottery": (620.0, 2),
    "aioredlock": (230.0, 2),
    "coredis": (500.0, 2),
}
LOCKING_IN = {
    "": ("Pinyon script", "Pinyon pure", "redis-py", "python-redis-lock", "redlock-py", "pottery"),
    " gevent": ("Pinyon script", "Pinyon pure", "redis-py", "python-redis-lock"),
    " asyncio": ("Pinyon script", "Pinyon pure", "redis-py", "aioredlock", "coredis"),
}
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


def coroutine_rows() -> list[RowInfo]:
    return [
        RowInfo(f"{group}:{operation}:{many or 'sync'}", group, "operations", f"{many} at once", operation, 32, many)
        for group in DRIVEN
        for operation in ("set", "get")
        for many in CONCURRENCIES
        if many or group == "gevent"
    ]


def slow_rows() -> list[RowInfo]:
    return [
        RowInfo(f"{group}:{operation}:{label}:{many or 'sync'}", group, "operations", "", operation, SIZES[label], many)
        for group in ("local", "slow")
        for operation in ("set", "get")
        for label in ("64B", "10KB", "100KB")
        for many in (0, 1, 100)
        if group == "local" or label != "100KB"
    ]


def blocking_rows() -> list[RowInfo]:
    wanted = ("set:plain", *(f"{do}:{label}" for label in SIZES for do in ("set", "get")))
    many = [f"multiget:{keys}:{servers}" for servers in (1, 4) for keys in (1, 10, 100, 1000)]
    return [row.info() for row in step_rows() if row.name in (*wanted, *many)]


def contestants_of(row: RowInfo) -> list[str]:
    if row.group in DRIVEN:
        return [f"{name} {row.group}" if row.concurrency else name for name in DRIVEN[row.group]] + ["floor"]
    if row.group in ("local", "slow"):
        driven = ["Pinyon gevent", "pymemcache gevent", "Pinyon asyncio", "emcache asyncio", "aiomcache asyncio"]
        return driven if row.concurrency else ["Pinyon", "pylibmc"]
    return list(COSTS)


def seconds(row: RowInfo, contestant: str) -> float:
    """Invented seconds of one operation: the client's cost, the cost of waiting, and that of the coroutine library."""
    cost = COSTS.get(contestant.split()[0], 40.0 + 3 * len(contestant))
    cost += (row.size or 36) / 8000 * cost / 16
    if row.group == "multiget":
        return (16.0 / row.keys + (cost - 15.8) / 10) / 1e6
    if row.group in DRIVEN and row.concurrency:
        batched = contestant.startswith(("Pinyon", "floor"))
        cost = cost * (0.2 if batched else 1) + 40 / row.concurrency + (0 if row.group == "gevent" else 5)
    waiting = 40_000 / max(row.concurrency, 1) if row.group == "slow" else 0
    return (cost + waiting) / 1e6


def lockers_of(row: RowInfo) -> list[str]:
    everybody = [f"{name}{model}" for model, names in LOCKING_IN.items() for name in names]
    if row.operation == "pipelined":
        return ["floor"]
    if row.operation in ("ping", "handover"):
        return [*LOCKING_IN[""], *(["floor"] if row.operation == "ping" else [])]
    return [*everybody, "floor"] if row.operation == "pair" else everybody


def lock_samples(row: RowInfo, chance: random.Random) -> Iterator[Sample]:
    for number in range(1, ROUNDS + 1):
        for contestant in lockers_of(row):
            cost, commands = LOCKING.get(contestant.removesuffix(" gevent").removesuffix(" asyncio"), (38.0, 0))
            keys = max(row.keys, 1)
            each = (cost * (keys if commands else 1 + keys / 9) * chance.lognormvariate(0, 0.03)) / 1e6
            if row.operation == "ping":
                each /= 2
            middle = each * (row.concurrency if commands else 1)
            if row.operation == "section":
                each += 1e-4
            latency = Latency(middle * 1.1, middle, middle * (30 if commands else 2.5), middle * 60)
            times = (each * 1000, each * 300, each * 250)
            yield Sample(number, row.name, contestant, 1000, *times, latency)


def work_of(sample: Sample, keys: int) -> ServerWork:
    commands = LOCKING.get(sample.contestant.removesuffix(" gevent").removesuffix(" asyncio"), (0, 0))[1]
    calls = {"evalsha": 1000 * (commands * keys or 2), "publish": 1000}
    sent = {"evalsha": float(calls["evalsha"])}
    cell = (sample.round, sample.row, sample.contestant)
    return ServerWork(*cell, 1000, calls, sent, 4.5 * calls["evalsha"], calls["evalsha"])


def samples_of(row: RowInfo, chance: random.Random) -> Iterator[Sample]:
    for number in range(1, ROUNDS + 1):
        for contestant in contestants_of(row):
            each = seconds(row, contestant) * chance.lognormvariate(0, 0.03)
            operations = 2000
            busy = min(each, 60e-6) * operations
            latency = None
            if row.concurrency:
                middle = each * row.concurrency
                latency = Latency(middle * 1.1, middle, middle * chance.uniform(1.8, 3.2), middle * 9)
            yield Sample(number, row.name, contestant, operations, each * operations, busy * 0.3, busy * 0.35, latency)


@pytest.fixture(scope="session")
def full() -> Document:
    """A document with every group of rows. Pinyon is the first contestant."""
    rows = [*blocking_rows(), *coroutine_rows(), *slow_rows()]
    chance = random.Random(3)
    names = list(dict.fromkeys(name for row in rows for name in contestants_of(row)))
    locking = [row.info() for row in lock_rows(short=False)]
    lock_names = [name for row in locking for name in lockers_of(row)]
    samples = [sample for row in rows for sample in samples_of(row, chance)]
    locked = [sample for row in locking for sample in lock_samples(row, chance)]
    keys = {row.name: max(row.keys, 1) for row in locking}
    names = list(dict.fromkeys([*names, *lock_names]))
    return Document(
        created="2026-01-01 00:00:00 +0000",
        command="python -m pinyon_bench run",
        placement="same-core",
        rounds=ROUNDS,
        seed_iterations=500,
        combine="sum",
        machine=Machine("A Processor", 2, "Linux 6", "Debian"),
        versions={"memcached": "1.6.18", "Python": "3.11"},
        contestants=[ContestantInfo(name, "1.0", "defaults") for name in names],
        rows=[*rows, *locking],
        samples=[*samples, *locked],
        server_work=[work_of(sample, keys[sample.row]) for sample in locked],
        handovers=[
            Handovers(sample.round, sample.row, sample.contestant, 1000, 990)
            for sample in locked
            if sample.row == "locks:handover:8"
        ],
    )


def narrowed(document: Document, *groups: str) -> Document:
    """The document with only these groups of rows."""
    rows = [row for row in document.rows if row.group in groups]
    names = {row.name for row in rows}
    return replace(document, rows=rows, samples=[sample for sample in document.samples if sample.row in names])


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
        assert target.text in read.text


def test_the_page_needs_nothing_besides_itself(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    read = Reader(text)
    assert not {"script", "link", "iframe", "object", "img"} & set(read.names)
    assert all(target.startswith("#") and target[1:] in read.identifiers for target in read.targets)
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    assert text.count("://") == text.count(' xmlns="http://www.w3.org/2000/svg"')


def test_findings_are_those_of_the_document(full: Document) -> None:
    quick = [replace(each, wall=each.wall / 8) if each.contestant == "libmc gevent" else each for each in full.samples]
    before, after = (
        sections(narrowed(document, "gevent"))[0].plots[0] for document in (full, replace(full, samples=quick))
    )
    assert re.match(r"With 16 coroutines Pinyon reaches [\d,]+ operations per second, [2-9]\.\d+ times", before.finding)
    assert re.search(r", 0\.\d\d times the rate of libmc, the fastest of the others, ", after.finding)
    assert before.svg != after.svg


def test_blocking_calls_belong_to_the_curve_of_the_same_client(full: Document) -> None:
    plot = sections(narrowed(full, "gevent"))[0].plots[0]
    names = re.findall(r">([^<>]+)</text>", plot.svg)
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
    names = set(re.findall(r">([^<>]+)</text>", found["locks-mutex-asyncio"].svg))
    assert {"Pinyon script", "Pinyon pure", "redis-py", "aioredlock", "coredis"} < names
    assert "Pinyon" not in names and "pottery" not in names
    assert re.match(
        r"With 1/1 Pinyon script does [\d,]+ cycles per second, [\d.]+ times the rate of redis-py",
        found["locks-mutex-asyncio"].finding,
    )
    assert "Pinyon script sends 2.00 commands per cycle" in found["locks-commands-10-19"].finding
    assert re.search(r"8 processes .* [\d.]+ and [\d.]+ round trips; ", found["locks-handover"].finding)


def test_text_of_the_document_is_escaped(full: Document) -> None:
    odd = "<em>&$x_1$"

    def renamed(name: str) -> str:
        return name.replace("pymemcache", odd)

    few = narrowed(full, "gevent", "size")
    samples = [replace(sample, contestant=renamed(sample.contestant)) for sample in few.samples]
    contestants = [replace(info, name=renamed(info.name), configuration=odd) for info in few.contestants]
    text = page(replace(few, samples=samples, contestants=contestants, command=odd))
    assert text.count(f">{escape(odd)}</text>") > 5
    read = Reader(text)
    assert read.text.count(odd) > 20
    assert "em" not in read.names


def test_the_same_document_gives_the_same_plots(full: Document, tmp_path: Path) -> None:
    few, path, folder = narrowed(full, "gevent", "size"), tmp_path / "PERFORMANCE.md", tmp_path / "docs" / "plots"
    performance.write(few, path)
    first = {file.name: file.read_bytes() for file in folder.iterdir()}
    (folder / "of-an-earlier-record.svg").write_text("<svg/>")
    performance.write(few, path)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == first
    shown = re.findall(r"!\[[^\]]+\]\(docs/plots/([^)]+)\)", path.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(first) != []
    assert max(map(len, first.values())) < 40_000
