from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking import done

from pinyon_bench.c.rows import c_rows
from pinyon_bench.catalogue import all_rows, targets
from pinyon_bench.checks import expected_counts, stored_wrongly
from pinyon_bench.contestant import Contestant, Entry, all_entries
from pinyon_bench.coroutines.rows import PairsRow
from pinyon_bench.declaration import Row
from pinyon_bench.locks.rows import LocksRow
from pinyon_bench.names import ANYEVENT, CORO, FLOOR, FUTURE, PERL, PERL_MODELS
from pinyon_bench.perl.entries import command
from pinyon_bench.perl.rows import PERL_GROUPS, multiset_row, perl_rows
from pinyon_bench.results import ContestantInfo, Document, Sample, Syscalls
from pinyon_bench.step_rows import StepRow
from pinyon_bench.summary import standing, summary
from pinyon_bench.tables import tables

HASH = Path(__file__).parent / "perl"
needs_perl = pytest.mark.skipif(shutil.which("perl") is None, reason="Perl is not installed")
Ask = Callable[..., dict[str, Any]]


@functools.cache
def row_named(name: str) -> Row:
    return next(row for row in all_rows(short=True) if row.name == name)


def spec_of(row: Row) -> dict[str, Any]:
    if isinstance(row, StepRow):
        return {**row.spec(["nowhere:1"], 3)}
    if isinstance(row, PairsRow):
        return {**row.spec("nowhere:1", 40)}
    assert isinstance(row, LocksRow)
    return {**row.spec("nowhere:1", 20, 0.0, workers=min(3, row.workers))}


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Asks a Perl contestant whose cache is a hash, and which may do something wrongly."""
    opened = []

    def ask_one(do: str, row: Row | None, model: str, wrong: str = "", client: str = "Hash") -> dict[str, Any]:
        monkeypatch.setenv("PERL_HASH", wrong)
        monkeypatch.setenv("PERL5LIB", str(HASH))
        contestant = Contestant(Entry("hash", command(client, model), ()), None)
        opened.append(contestant)
        return done(contestant.ask, do, spec_of(row)) if row else contestant.ask({"do": do})

    yield ask_one
    for contestant in opened:
        contestant.close()


@needs_perl
@pytest.mark.parametrize("model", PERL_MODELS)
def test_a_contestant_says_what_it_runs_on(ask: Ask, model: str) -> None:
    reply = ask("describe", None, model)
    assert reply["ok"] and reply["version"].startswith("1, Perl 5.")
    assert {PERL: "Perl", CORO: "Coro", ANYEVENT: "AnyEvent", FUTURE: "Future"}[model] in reply["version"]


@needs_perl
def test_a_client_that_cannot_be_loaded_says_so(ask: Ask) -> None:
    reply = ask("describe", None, PERL, client="None")
    assert not reply["ok"] and reply["reason"].startswith("cannot be loaded: Can't locate PinyonBench/Client/None.pm")


@needs_perl
@pytest.mark.parametrize("operation", ["set", "get"])
@pytest.mark.parametrize(
    ("shape", "model"), [("loops", CORO), ("loops", ANYEVENT), ("loops", FUTURE), ("semaphore", CORO)]
)
def test_coroutines_callbacks_and_futures_do_the_work(ask: Ask, shape: str, model: str, operation: str) -> None:
    stored = replace(row_named(f"perl:{shape}:local:set:64B:100"), order="shared" if shape == "loops" else "semaphore")
    assert ask("verify", stored, model) == {"ok": True}
    reply = ask("time", stored, model)
    assert reply["ok"] and reply["wall"] > 0 and reply["latency"]["longest"] >= reply["latency"]["median"] > 0


@needs_perl
@pytest.mark.parametrize(
    "name", ["perl:set:plain", "perl:multiget", "perl:missing", "perl:get:64B", "perl:multiset:100:1"]
)
def test_steps_are_done_and_checked(ask: Ask, name: str) -> None:
    row = row_named(name)
    assert ask("verify", row, PERL) == {"ok": True}
    assert ask("time", row, PERL)["wall"] > 0


@needs_perl
@pytest.mark.parametrize("model", [PERL, CORO])
def test_locks_are_locked_in_turn(ask: Ask, model: str) -> None:
    row = row_named("locks:pair:1" if model == PERL else "locks:mutex:2/3")
    for do in ("verify", "time"):
        reply = ask(do, row, model)
        assert reply["ok"] and reply["cycles"] == 20 and reply["wall"] > 0


@needs_perl
@pytest.mark.parametrize(
    ("name", "model", "wrong", "said"),
    [
        ("perl:get:64B", PERL, "get", "get 'bench:000000:"),
        ("perl:set:64B", PERL, "set", "set 'bench:000000:"),
        ("perl:set:64B", PERL, "lost", "answered None"),
        ("perl:multiget", PERL, "get_many", "get_many ['Short'"),
        ("perl:multiset:100:1", PERL, "set_many", "answered 99 instead of 100"),
        ("perl:loops:local:set:64B:100", CORO, "get", "answered 'wrong'"),
        ("perl:loops:local:set:64B:100", CORO, "set", "did not store"),
        ("perl:loops:local:set:64B:100", ANYEVENT, "get", "answered 'wrong'"),
        ("perl:loops:local:set:64B:100", ANYEVENT, "set", "did not store"),
        ("perl:loops:local:set:64B:100", ANYEVENT, "refused", "refused"),
        ("perl:loops:local:set:64B:100", FUTURE, "get", "answered 'wrong'"),
        ("perl:loops:local:set:64B:100", FUTURE, "set", "did not store"),
        ("perl:semaphore:local:set:64B:100", CORO, "get", "answered 'wrong'"),
        ("perl:semaphore:local:set:64B:100", CORO, "lost", "answered nothing"),
        ("locks:mutex:1/1", CORO, "lock", "two workers were inside at once"),
    ],
)
def test_wrong_replies_are_found(ask: Ask, name: str, model: str, wrong: str, said: str) -> None:
    reply = ask("verify", row_named(name), model, wrong)
    assert not reply["ok"] and said in reply["reason"]


@needs_perl
@pytest.mark.parametrize(
    ("name", "model", "said"),
    [
        ("perl:setq:plain", PERL, "no quiet mode"),
        ("perl:incr", PERL, "no incr or create"),
        ("perl:semaphore:local:set:64B:100", ANYEVENT, "no coroutines"),
        ("perl:loops:local:set:64B:100", PERL, "no concurrency"),
        ("locks:section:1/1", CORO, "no workload section"),
    ],
)
def test_what_a_client_or_a_model_lacks_is_no_error_of_its(ask: Ask, name: str, model: str, said: str) -> None:
    reply = ask("verify", row_named(name), model)
    assert reply["cannot"] and reply["reason"] == said


def test_one_call_that_stores_many_keys_counts_them_all() -> None:
    spec = multiset_row().spec(["nowhere:1"], 7)
    counts = expected_counts(spec)
    assert (counts.gets, counts.sets, counts.deletes) == (0, (7 + spec["warmup"]) * 100, 0)

    class Server:
        def stored(self, key: str) -> bytes:
            return key[::-1].encode() if key < "bench:000050" else b"wrong"

    assert "instead of the 36 bytes" in stored_wrongly(spec, [Server()])  # type: ignore[list-item]


def test_rows_have_the_contestants_of_their_model() -> None:
    def names(row: str) -> set[str]:
        return {entry.name for entry in all_entries() if entry.takes_part(row_named(row))}

    blocking = {"Pinyon perl", "Cache::Memcached::Fast perl", "Cache::Memcached perl", FLOOR}
    assert names("perl:get:64B") == {*blocking, "Pinyon shim perl", "libmemcached perl", "bare socket perl"}
    assert names("perl:loops:slow:get:64B:sync") == blocking
    assert names("perl:loops:local:get:64B:100") == {
        *("Pinyon coro", "Cache::Memcached::Fast coro", "Pinyon anyevent", "AnyEvent::Memcached anyevent"),
        *("Pinyon future", FLOOR),
    }
    assert names("perl:semaphore:slow:get:64B:100") == {"Pinyon coro"}
    assert {"Pinyon script perl", "Pinyon script coro"} < names("locks:pair:1")
    assert "Pinyon script coro" in names("locks:mutex:1/1") and "Pinyon script perl" not in names("locks:mutex:1/1")
    assert names("c:get:64B") == {"Pinyon c", "libmemcached c", FLOOR}
    assert all(row.is_called("perl") for row in perl_rows(short=True))
    assert all(row.is_called("c") for row in c_rows(short=True))


def test_the_seeds_program_has_a_coroutine_for_every_operation() -> None:
    row = row_named("perl:semaphore:local:get:64B:100")
    assert isinstance(row, PairsRow)
    spec = row.spec("nowhere:1")
    assert (spec["order"], len(spec["pairs"]), spec["concurrency"]) == ("semaphore", 10_000, 100)
    assert {key for key, _ in spec["pairs"]} == {"key1"}


@pytest.fixture
def made_up(full: Document) -> Document:
    """A document in which Pinyon takes a third of the others' time in Perl, in coroutines a thirtieth, and over the slow
    link a hundredth of that with one.
    """
    rows = [row for row in (*perl_rows(short=True), *c_rows(short=True))]
    samples = [
        Sample(number, row.name, entry.name, 1000, wall, wall / 4, wall / 4)
        for row in rows
        for entry in all_entries()
        if entry.takes_part(row)
        for wall in [seconds(row, entry.name)]
        for number in (1, 2, 3)
    ]
    names = list(dict.fromkeys(sample.contestant for sample in samples))
    return replace(
        full,
        rows=[row.info() for row in rows],
        samples=samples,
        contestants=[ContestantInfo(name, "1.0") for name in names],
        syscalls=[
            Syscalls("Pinyon coro", "perl:loops:local:get:64B:100", {"recvfrom": 0.0101, "sendto": 0.0202}),
            Syscalls("Pinyon perl", "perl:get:64B", {"recvfrom": 1.0, "sendto": 1.0}),
        ],
        server_work=[],
        handovers=[],
    )


def seconds(row: Row, name: str) -> float:
    each = 0.01 if name.startswith("Pinyon") else 0.03
    if ":slow:" in row.name:
        return each * 100 / max(row.concurrency, 1)
    return each / 10 if row.concurrency > 1 and name.startswith("Pinyon") else each


def test_targets_are_said_and_judged(made_up: Document) -> None:
    found = {target.text: target for target in targets(made_up) if target.row.startswith("perl:")}
    assert found["perl:get:64B: at least 0.92 of the floor's rate"].measured == "3.000"
    assert found["perl:get:64B: exactly 2 system calls"].met
    assert found["perl:multiset:100:1: CPU per operation at most Cache::Memcached::Fast's"].met
    assert found["perl:setq:plain: CPU per operation at most Cache::Memcached::Fast's"].met
    nearby = "perl:loops:local:get:64B:100"
    assert found[f"{nearby} coro: at least 0.2 of the floor's rate"].measured == "30.000"
    assert found[f"{nearby} anyevent: CPU per operation at most AnyEvent::Memcached's"].met
    assert found[f"{nearby} coro: at most 0.03 system calls per operation"].met
    assert found["perl:loops:slow:get:64B:100 coro: at least 95 times one coroutine"].measured == "100.000"
    slower = replace(made_up, syscalls=[replace(made_up.syscalls[0], per_call={"sendto": 0.036})])
    again = {target.text: target for target in targets(slower)}
    assert not again[f"{nearby} coro: at most 0.03 system calls per operation"].met


def test_tables_show_perl_and_c(made_up: Document) -> None:
    found = {table.title: table for table in tables(made_up)}
    for group in PERL_GROUPS:
        assert found[f"{group.title}{group.counted}"].rows
    assert found["C: get, set and many keys in one call: operations or keys per second, connected and warm"].rows


def test_the_summary_compares_perl_with_clients_not_with_a_bare_socket(made_up: Document) -> None:
    socket = [Sample(number, "perl:get:64B", "bare socket perl", 1000, 0.001, 0.001, 0.0) for number in (1, 2, 3)]
    samples = [each for each in made_up.samples if each.contestant != "bare socket perl"]
    document = replace(made_up, samples=[*samples, *socket])
    found = standing(document, "perl:get:64B", "Pinyon perl")
    assert found and found.other == "Cache::Memcached::Fast perl" and round(found.factor) == 3
    assert "Perl: get, 64 bytes" in {line[0] for line in summary(document).rows}
