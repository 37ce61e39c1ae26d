from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from asking import done

from pinyon_bench.catalogue import all_rows, targets
from pinyon_bench.contestant import Contestant, Entry, all_entries
from pinyon_bench.coroutines.rows import PairsRow
from pinyon_bench.declaration import Row
from pinyon_bench.locks.rows import LocksRow
from pinyon_bench.names import ASYNC, EVENTMACHINE, FLOOR, RUBY, RUBY_MODELS
from pinyon_bench.results import ContestantInfo, Document, Sample
from pinyon_bench.ruby.entries import command
from pinyon_bench.ruby.rows import RUBY_GROUPS, ruby_rows
from pinyon_bench.step_rows import StepRow
from pinyon_bench.tables import tables

needs_ruby = pytest.mark.skipif(shutil.which("ruby") is None, reason="Ruby is not installed")
Ask = Callable[[str, Row, str, str], dict[str, Any]]


@functools.cache
def row_named(name: str) -> Row:
    return next(row for row in all_rows(short=True) if row.name == name)


def spec_of(row: Row) -> dict[str, Any]:
    if isinstance(row, StepRow):
        return {**row.spec(["nowhere:1"], 3)}
    if isinstance(row, PairsRow):
        return {**row.spec("nowhere:1", 40)}
    assert isinstance(row, LocksRow)
    return {**row.spec("nowhere:1", 20, 0.0, workers=3)}


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Asks a Ruby contestant whose cache is a Hash, and which may do something wrongly."""
    opened = []

    def ask_one(do: str, row: Row, model: str, wrong: str = "") -> dict[str, Any]:
        monkeypatch.setenv("RUBY_HASH", wrong)
        contestant = Contestant(Entry("hash", command("../../tests/ruby_hash", model), ()), None)
        opened.append(contestant)
        return done(contestant.ask, do, spec_of(row))

    yield ask_one
    for contestant in opened:
        contestant.close()


@needs_ruby
@pytest.mark.parametrize("model", RUBY_MODELS)
def test_a_contestant_says_what_it_runs_on(model: str) -> None:
    contestant = Contestant(Entry("hash", command("../../tests/ruby_hash", model), ()), None)
    reply = contestant.ask({"do": "describe"})
    contestant.close()
    assert reply["ok"] and reply["version"].startswith("1, Ruby 3.")
    assert {RUBY: "Ruby", ASYNC: "async", EVENTMACHINE: "EventMachine"}[model] in reply["version"]


@needs_ruby
def test_a_client_that_cannot_be_loaded_says_so() -> None:
    contestant = Contestant(Entry("none", command("none", RUBY), ()), None)
    reply = contestant.ask({"do": "describe"})
    contestant.close()
    assert not reply["ok"] and "cannot be loaded" in reply["reason"]


@needs_ruby
@pytest.mark.parametrize("model", RUBY_MODELS)
@pytest.mark.parametrize("name", ["ruby:async:set:16", "locks:mutex:2/3"])
def test_threads_and_fibers_do_the_work(ask: Ask, model: str, name: str) -> None:
    assert ask("verify", row_named(name), model, "")["ok"]
    reply = ask("time", row_named(name), model, "")
    assert reply["ok"] and reply["wall"] > 0 and reply["latency"]["longest"] >= reply["latency"]["median"] > 0


@needs_ruby
@pytest.mark.parametrize("name", ["ruby:set:plain", "ruby:multiget", "ruby:mixed", "ruby:get:36B"])
def test_steps_are_done_and_checked(ask: Ask, name: str) -> None:
    row = row_named(name)
    assert ask("verify", row, RUBY, "") == {"ok": True}
    assert ask("time", row, RUBY, "")["wall"] > 0


@needs_ruby
@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("ruby:get:36B", "get", "get 'bench:000000:"),
        ("ruby:set:36B", "set", "set 'bench:000000:"),
        ("ruby:set:36B", "lost", "answered None"),
        ("ruby:multiget", "get_many", "answered {}"),
        ("ruby:async:set:4", "get", 'answered "wrong"'),
        ("ruby:async:set:4", "set", "did not store"),
        ("locks:mutex:1/1", "lock", "two workers were inside at once"),
    ],
)
def test_wrong_replies_are_found(ask: Ask, name: str, wrong: str, said: str) -> None:
    reply = ask("verify", row_named(name), RUBY, wrong)
    assert not reply["ok"] and said in reply["reason"]


@needs_ruby
def test_what_a_client_lacks_is_no_error_of_its(ask: Ask) -> None:
    reply = ask("verify", row_named("ruby:setq:plain"), RUBY, "")
    assert reply["cannot"] and reply["reason"] == "no quiet mode"


def test_rows_have_the_contestants_of_their_model() -> None:
    def names(row: str) -> set[str]:
        return {entry.name for entry in all_entries() if entry.takes_part(row_named(row))}

    assert names("ruby:get:36B") == {"Pinyon ruby", "Dalli ruby", FLOOR}
    assert names("ruby:threads:get:8") == {"Pinyon ruby", "Dalli ruby"}
    assert names("ruby:async:get:16") == {"Pinyon async", "Dalli async", FLOOR}
    assert names("ruby:eventmachine:get:16") == {"Pinyon eventmachine", "Dalli eventmachine", FLOOR}
    assert {"Pinyon script ruby", "Pinyon script async", "Pinyon script eventmachine"} < names("locks:section:1/1")
    assert all(row.is_called("ruby") for row in ruby_rows(short=True))


@pytest.fixture
def made_up(full: Document) -> Document:
    """A document in which Ruby's Pinyon takes a third of Dalli's time, and user time, and the floor half of Pinyon's."""
    rows = [row.info() for row in ruby_rows(short=True)]
    walls = {"Pinyon": 0.01, "Dalli": 0.03, "floor": 0.005}
    samples = [
        Sample(number, row.name, name, 1000, wall, wall / 4, wall / 4)
        for row in rows
        for number in (1, 2, 3)
        for client, wall in walls.items()
        for name in [client if client == FLOOR else f"{client} {model_of(row.group)}"]
    ]
    names = list(dict.fromkeys(sample.contestant for sample in samples))
    infos = [ContestantInfo(name, f"1.0, async {2 if name.endswith(ASYNC) else 0}.1") for name in names]
    return replace(full, rows=rows, samples=samples, contestants=infos, server_work=[], handovers=[])


def model_of(group: str) -> str:
    return group.rpartition(":")[2] if group.endswith((ASYNC, EVENTMACHINE)) else RUBY


def test_targets_are_said_and_judged(made_up: Document) -> None:
    found = {target.text: target for target in targets(made_up) if target.row.startswith("ruby:")}
    assert not found["ruby:get:36B: at least 0.92 of the floor's rate"].met
    assert found["ruby:set:36B: user time per operation at most a third of Dalli's"].measured == "0.333"
    assert found["ruby:threads:get:8: at least 0.95 times the rate of one thread"].met
    assert found["ruby:async:get:16: at least 0.25 of the floor's rate"].measured == "0.500"
    assert found["ruby:async:get:16: CPU per operation at most Dalli's"].measured == "0.333"


def test_tables_show_ruby(made_up: Document) -> None:
    found = {table.title: table for table in tables(made_up)}
    for group in RUBY_GROUPS:
        assert found[f"{group.title}{group.counted}"].rows
