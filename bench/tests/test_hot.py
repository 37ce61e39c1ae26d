from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from asking import done
from pinyon.cli.stress.models import Model, Tasks, Threads

from pinyon_bench.calls import Calls
from pinyon_bench.catalogue import all_rows, targets
from pinyon_bench.checks import Counts
from pinyon_bench.contestant import all_entries
from pinyon_bench.contestants import meta_memcache, pinyon
from pinyon_bench.coroutines.cells import prepare
from pinyon_bench.coroutines.work import PairsHarness
from pinyon_bench.harness import answer
from pinyon_bench.hot.cells import wrongly_counted
from pinyon_bench.hot.rows import DRAWS, KEYS, VALUE_BYTES, HotRow, draws, hot_pairs, hot_rows
from pinyon_bench.names import keeps_hot_keys
from pinyon_bench.protocol import value_of
from pinyon_bench.results import ContestantInfo, Document, Sample
from pinyon_bench.servers import start_servers
from pinyon_bench.summary import slower, summary
from pinyon_bench.tables import tables

COUNT = 5_000
THREAD, TASK = hot_rows(short=True)
CONTESTANTS = {
    "Pinyon": (pinyon.ADAPTER, Threads, THREAD),
    "Pinyon near": (pinyon.NEAR, Threads, THREAD),
    "meta-memcache hot cache": (meta_memcache.HOT_CACHE, Threads, THREAD),
    "Pinyon asyncio": (pinyon.ASYNCIO, Tasks, TASK),
    "Pinyon near asyncio": (pinyon.NEAR_TASKS, Tasks, TASK),
}


def test_the_draws_follow_zipfs_law_and_are_the_same_every_time() -> None:
    found = draws()
    wanted = Counter(found)
    assert len(found) == DRAWS and 0 <= min(found) and max(found) < KEYS
    assert 2**1.1 * 0.95 < wanted[0] / wanted[1] < 2**1.1 * 1.05
    assert 10**1.1 * 0.95 < wanted[0] / wanted[9] < 10**1.1 * 1.05
    draws.cache_clear()
    assert found == draws()


def test_each_key_has_a_value_of_its_own_with_100_bytes() -> None:
    values = {value_of("bytes", VALUE_BYTES, text) for _, text in hot_pairs()}
    assert len(values) == len({key for key, _ in hot_pairs()}) == KEYS
    assert {len(value) for value in values} == {VALUE_BYTES} == {100}


def test_run_and_record_have_the_rows_and_their_contestants() -> None:
    for short in (True, False):
        rows = [row for row in all_rows(short) if isinstance(row, HotRow)]
        assert [row.name for row in rows] == [THREAD.name, TASK.name] and all(row.in_run for row in rows)
        names = [{entry.name for entry in all_entries() if entry.takes_part(row)} for row in rows]
        assert names == [{name for name, each in CONTESTANTS.items() if each[2].name == row.name} for row in rows]


@pytest.mark.parametrize("name", CONTESTANTS)
def test_a_client_is_verified_and_timed_and_the_server_counts_what_it_asks(name: str) -> None:
    adapter, kind, row = CONTESTANTS[name]
    model: Model = kind()
    with start_servers(1, None) as (server,):
        harness = PairsHarness(adapter, model)
        few, spec = row.spec(server.name, 100), row.drawn(server.name, COUNT)
        prepare(few, server)
        for _ in range(2):
            assert done(partial(answer, harness.do), "verify", few) == {"ok": True}
        prepare(spec, server)
        before = Counts.taken([server])
        assert done(partial(answer, harness.do), "time", spec)["ok"]
        counted = Counts.taken([server]).minus(before)
        assert wrongly_counted(counted, spec, keeps_hot_keys(name)) == ""
        assert wrongly_counted(counted, spec, not keeps_hot_keys(name)) != ""
        harness.close()
    if isinstance(model, Tasks):
        model.close()


def test_a_wrong_value_is_found_while_the_clock_runs() -> None:
    spec = THREAD.drawn("nowhere:1", COUNT)
    values: dict[str, Any] = {key: value_of("bytes", VALUE_BYTES, text) for key, text in spec["pairs"]}

    class Client:
        version = configuration = ""

        def connect(self, servers: list[str], kind: str, quiet: bool) -> Calls:
            return Calls(get=values.get, set=values.__setitem__, close=lambda: None)

    harness = PairsHarness(Client(), Threads())
    assert done(partial(answer, harness.do), "time", spec)["ok"]
    last = spec["pairs"][spec["draws"][-1]][0]
    values[last] = b"another's"
    reply = done(partial(answer, harness.do), "time", spec)
    assert not reply["ok"] and "WrongResult" in reply["reason"]


def test_the_report_has_a_table_and_compares_pinyon_with_memory_alone(full: Document) -> None:
    rates = {"Pinyon": 50_000, "Pinyon near": 900_000, "meta-memcache hot cache": 400_000}
    document = replace(
        full,
        contestants=[ContestantInfo(name, "1.0", "defaults") for name in rates],
        rows=[THREAD.info()],
        samples=[Sample(1, THREAD.name, name, each, 1.0, 0.5, 0.2) for name, each in rates.items()],
    )
    found = {table.title: table for table in tables(document)}
    assert found["Hot keys: gets per second, one at a time"].rows == [
        ["Pinyon", "50,000"],
        ["Pinyon near", "900,000 (0.06)"],
        ["meta-memcache hot cache", "400,000 (0.12)"],
    ]
    assert slower(document).rows == []
    assert [line[:3] for line in summary(document).rows] == [
        ["get of hot keys in memory", "900,000", "400,000 (meta-memcache hot cache)"]
    ]


@pytest.mark.parametrize(("near", "is_met"), [(5_000, True), (4_999, False)])
def test_memory_must_make_gets_five_times_as_fast_in_threads_and_in_tasks(
    full: Document, near: int, is_met: bool
) -> None:
    rates = {
        (THREAD, "Pinyon"): 1_000,
        (THREAD, "Pinyon near"): near,
        (TASK, "Pinyon asyncio"): 1_000,
        (TASK, "Pinyon near asyncio"): near,
    }
    document = replace(
        full,
        contestants=[ContestantInfo(name, "1.0", "defaults") for _, name in rates],
        rows=[THREAD.info(), TASK.info()],
        samples=[Sample(1, row.name, name, each, 1.0, 0.5, 0.2) for (row, name), each in rates.items()],
    )
    words = "at least 5 times the rate without hot keys in memory"
    found = [(target.text, target.met) for target in targets(document) if target.text.startswith("hot:")]
    assert found == [(f"hot:thread: {words}", is_met), (f"hot:asyncio: {words}", is_met)]
