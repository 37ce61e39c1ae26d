from __future__ import annotations

import asyncio
import functools
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from asking import done
from pinyon.cli.stress.models import Greenlets, Model, Tasks, Threads

from pinyon_bench.calls import Calls
from pinyon_bench.catalogue import GROUPS, placement_rows
from pinyon_bench.checks import Counts
from pinyon_bench.contestant import all_entries, program
from pinyon_bench.contestants import pinyon, pylibmc, pymemcache
from pinyon_bench.coroutines import link
from pinyon_bench.coroutines.cells import expected_counts, prepare
from pinyon_bench.coroutines.rows import PAIRS, PairsRow, pairs_rows, uuid_pairs
from pinyon_bench.coroutines.work import PairsHarness, parts_of
from pinyon_bench.harness import answer
from pinyon_bench.placement import TWO_CORES, UNPINNED
from pinyon_bench.playing import latency_of
from pinyon_bench.servers import start_servers


class Dictionary:
    """A client with a dict as its cache. From a certain call on, it may answer gets or sets wrongly."""

    def __init__(self, wrong_get: int | None = None, wrong_set: int | None = None) -> None:
        self._items: dict[str, Any] = {}
        self._calls = {"get": 0, "set": 0}
        self._wrong = {"get": wrong_get, "set": wrong_set}
        self.connects = 0

    def get(self, key: str) -> Any:
        return b"wrong" if self._is_wrong("get") else self._items.get(key)

    def set(self, key: str, value: bytes) -> bool:
        self._items[key] = value
        return not self._is_wrong("set")

    def _is_wrong(self, name: str) -> bool:
        self._calls[name] += 1
        first = self._wrong[name]
        return first is not None and self._calls[name] >= first

    def connect(self, servers: list[str], kind: str, quiet: bool) -> Calls:
        self.connects += 1
        return Calls(get=self.get, set=self.set, close=lambda: None)


class AsyncDictionary(Dictionary):
    """The same, awaited, with a turn of the loop in each call."""

    async def connect(self, server: str, connections: int) -> Calls:  # type: ignore[override]
        self.connects += 1

        async def get(key: str) -> Any:
            await asyncio.sleep(0)
            return self.get(key)

        async def store(key: str, value: bytes) -> bool:
            await asyncio.sleep(0)
            return self.set(key, value)

        async def close() -> None:
            pass

        return Calls(get=get, set=store, close=close)


@pytest.fixture(params=["blocking", "gevent", "asyncio"])
def model(request: pytest.FixtureRequest) -> Iterator[tuple[Model, type[Dictionary]]]:
    if request.param == "asyncio":
        tasks = Tasks()
        yield tasks, AsyncDictionary
        tasks.close()
    else:
        yield (Threads() if request.param == "blocking" else Greenlets()), Dictionary


@functools.cache
def row_named(name: str) -> PairsRow:
    return next(row for row in pairs_rows(short=True) if row.name == name)


def ask(harness: PairsHarness, do: str, name: str, count: int = 50) -> dict[str, Any]:
    return done(partial(answer, harness.do), do, row_named(name).spec("nowhere:1", count))


@pytest.mark.parametrize("group", ["gevent", "local"])
def test_a_right_client_is_verified_and_timed_with_one_connect(model: Any, group: str) -> None:
    size = "" if group == "gevent" else ":10KB"
    adapter = model[1]()
    harness = PairsHarness(adapter, model[0])
    for operation in ("set", "get"):
        name = f"{group}:{operation}{size}:{16 if group == 'gevent' else 10}"
        assert ask(harness, "verify", name) == {"ok": True}
        reply = ask(harness, "time", name)
        assert set(reply) == {"ok", "wall", "user", "system", "latency"}
        assert 0 < reply["latency"]["median"] <= reply["latency"]["p99"] <= reply["latency"]["longest"]
    assert adapter.connects == 1


@pytest.mark.parametrize("do", ["verify", "time"])
@pytest.mark.parametrize("wrong", [{"wrong_get": 100}, {"wrong_set": 40}])
def test_a_wrong_answer_is_found_also_while_the_clock_runs(model: Any, do: str, wrong: dict[str, int]) -> None:
    adapter = model[1](**wrong)
    harness = PairsHarness(adapter, model[0])
    operation = "get" if "wrong_get" in wrong else "set"
    for key, text in uuid_pairs()[:200]:
        adapter._items[key] = text.encode()
    reply = ask(harness, do, f"gevent:{operation}:16", 200)
    assert not reply["ok"] and "WrongResult" in reply["reason"]


def test_latency_figures() -> None:
    assert latency_of([]) is None
    assert latency_of([3.0]) == {"mean": 3.0, "median": 3.0, "p99": 3.0, "longest": 3.0}
    hundred = latency_of([float(number) for number in range(200, 0, -1)])
    assert hundred == {"mean": 100.5, "median": 100.0, "p99": 198.0, "longest": 200.0}


def test_coroutines_share_the_pairs() -> None:
    items: list[Any] = list(range(10))
    assert parts_of(items, 4, "chunks") == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert parts_of(items, 4, "chunks", passes=2)[1:3] == [[3, 4, 5, 3, 4, 5], [6, 7, 8, 6, 7, 8]]
    first, second = parts_of(items, 2, "shared")
    assert [next(iter(first)), next(iter(second)), *first, *second] == items


class Batching(AsyncDictionary):
    """A client that asks once for a key that several tasks want at the same time, as emcache's batches do."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self._wanted: set[str] = set()

    def get(self, key: str) -> Any:
        self._wanted.discard(key)
        return super().get(key)

    async def connect(self, server: str, connections: int) -> Calls:  # type: ignore[override]
        calls = await super().connect(server, connections)

        def get(key: str) -> Any:
            self.asked += key not in self._wanted
            self._wanted.add(key)
            return calls.get(key)

        return replace(calls, get=get)


def test_no_two_tasks_want_a_key_at_the_same_time_in_further_passes() -> None:
    adapter, tasks = Batching(), Tasks()
    for key, text in uuid_pairs()[:64]:
        adapter._items[key] = text.encode()
    spec = row_named("asyncio:get:16").spec("nowhere:1", 64, passes=4)
    reply = done(partial(answer, PairsHarness(adapter, tasks).do), "time", spec)
    tasks.close()
    assert reply["ok"], reply
    assert adapter.asked == expected_counts(spec).gets


def test_the_pairs_are_distinct_uuids_and_the_same_every_time() -> None:
    texts = [text for pair in uuid_pairs() for text in pair]
    assert len(set(texts)) == 2 * PAIRS and all(len(text) == 32 and text[12] == "4" for text in texts)
    uuid_pairs.cache_clear()
    assert texts == [text for pair in uuid_pairs() for text in pair]


def test_what_the_server_must_count() -> None:
    spec = row_named("asyncio:set:64").spec("nowhere:1", 500, 3)
    assert expected_counts(spec).sets == 200 + 3 * 500 + 500 and expected_counts(spec).gets == 0


def test_each_row_has_its_contestants() -> None:
    def names(row: str) -> set[str]:
        return {entry.name for entry in all_entries() if entry.takes_part(row_named(row))}

    assert names("gevent:get:sync") == {"Pinyon", "pylibmc", "pymemcache", "libmc", "floor"}
    assert names("gevent:get:16") == {"Pinyon gevent", "pylibmc gevent", "pymemcache gevent", "libmc gevent", "floor"}
    assert len(names("uvloop:get:16")) == 6
    pools = {"pylibmc ClientPool", "pylibmc ThreadMappedPool", "pymemcache PooledClient"}
    for threads in (1, 8, 32):
        assert names(f"threads:get:{threads}") == {"Pinyon", *pools}
    assert {"Pinyon gevent", "Pinyon asyncio", "emcache asyncio"} <= names("slow:get:64B:100")


@pytest.mark.parametrize("placement", [TWO_CORES, UNPINNED])
def test_one_and_eight_threads_are_also_measured_on_two_cores(placement: str) -> None:
    rows = [row for row in placement_rows(placement) if row.name.startswith("threads:")]
    assert [row.name for row in rows] == [f"threads:get:{many} {placement}" for many in (1, 8)]
    for row in rows:
        taking_part = {entry.name for entry in all_entries() if entry.takes_part(row)}
        assert taking_part == {"Pinyon", "pylibmc ClientPool", "pylibmc ThreadMappedPool", "pymemcache PooledClient"}
        assert GROUPS[row.group].label(row.info()) == row.name.removeprefix("threads:").replace(":", " ")


@pytest.mark.parametrize(
    "adapter", [pinyon.ADAPTER, pylibmc.CLIENT_POOL, pylibmc.THREAD_MAPPED_POOL, pymemcache.POOLED], ids=str
)
def test_a_client_for_threads_is_verified_and_timed(adapter: Any) -> None:
    with start_servers(1, None) as (server,):
        harness = PairsHarness(adapter, Threads())
        for operation in ("set", "get"):
            spec = row_named(f"threads:{operation}:32").spec(server.name, 200)
            prepare(spec, server)
            assert done(partial(answer, harness.do), "verify", spec) == {"ok": True}
            prepare(spec, server)
            before = Counts.taken([server])
            assert done(partial(answer, harness.do), "time", spec)["ok"]
            assert Counts.taken([server]).minus(before).difference(expected_counts(spec)) == ""
        harness.close()


@pytest.mark.skipif(not program(link.PROXY_PROGRAM).exists(), reason="the floor's programs are not built")
def test_the_delay_proxy_delays_and_keeps_every_byte() -> None:
    sent = bytes(range(256)) * 8192
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=partial(_echo, listener), daemon=True).start()
        host, port = listener.getsockname()
        with link.delay_proxy(f"{host}:{port}", 20, None) as address:
            near_host, _, near_port = address.rpartition(":")
            with socket.create_connection((near_host, int(near_port)), timeout=120) as near:
                started = time.monotonic()
                sender = threading.Thread(target=near.sendall, args=(sent,), daemon=True)
                sender.start()
                first = near.recv(1)
                assert time.monotonic() - started >= 0.040
                received = bytearray(first)
                while len(received) < len(sent):
                    received += near.recv(1 << 16)
                sender.join(120)
                near.shutdown(socket.SHUT_WR)
                assert received == sent and near.recv(1) == b""


def _echo(listener: socket.socket) -> None:
    connection = listener.accept()[0]
    with connection:
        while part := connection.recv(1 << 16):
            connection.sendall(part)
