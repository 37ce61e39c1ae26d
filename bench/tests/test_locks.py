from __future__ import annotations

import asyncio
import functools
import itertools
import math
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from asking import done
from pinyon.cli.stress.models import Greenlets, Model, Tasks, Threads

from pinyon_bench.contestant import ContestantError, all_entries, program
from pinyon_bench.harness import answer
from pinyon_bench.locks import cells as locks_cells
from pinyon_bench.locks import server as server_module
from pinyon_bench.locks.calls import LockCalls, nested, nested_async
from pinyon_bench.locks.cells import LocksCells
from pinyon_bench.locks.contestants.pinyon import PURE
from pinyon_bench.locks.handover import Held, handover_seconds, held_by_all
from pinyon_bench.locks.harness import LocksHarness
from pinyon_bench.locks.origins import Origins, listening, statistics_name
from pinyon_bench.locks.rows import FAR_ONE_WAY_MILLISECONDS, LocksRow, lock_names, lock_rows
from pinyon_bench.locks.server import PROGRAM, LockServer, Statistics, start_lock_server
from pinyon_bench.locks.work import INSIDE_SECONDS
from pinyon_bench.placement import UNPINNED, place
from pinyon_bench.results import Document
from pinyon_bench.rounds import NO_LOCK_SERVER, Plan, Runner, describe
from pinyon_bench.servers import ServerError

needs_redis = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not installed")
needs_floor = pytest.mark.skipif(not program("pinyon-floor").exists(), reason="the floor is not built")


class Library:
    """A lock library within one process. If `broken`, it excludes no one."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.order: list[str] = []
        self._locks: dict[str, Any] = {}
        self._values: dict[str, int] = {}

    version, configuration = "1", "none"

    def connect(self, server: str, ttl: int) -> Any:
        return LockCalls(nested(self._single), self._execute, lambda: None)

    @contextmanager
    def _single(self, name: str) -> Iterator[None]:
        self.order.append(name)
        with threading.RLock() if self.broken else self._lock(name, threading.Lock):
            yield

    def _lock(self, name: str, make: Any) -> Any:
        return self._locks.setdefault(name, make())

    def _execute(self, command: str, key: str = "", value: str = "") -> Any:
        if command == "SET":
            self._values[key] = int(value)
        elif command == "INCR":
            self._values[key] += 1
        elif command == "DEL":
            del self._values[key]
        return str(self._values.get(key)).encode()


class AsyncLibrary(Library):
    """The same for asyncio."""

    async def connect(self, server: str, ttl: int) -> LockCalls:
        async def execute(*command: str) -> Any:
            await asyncio.sleep(0)
            return self._execute(*command)

        async def close() -> None:
            pass

        return LockCalls(nested_async(self._single_async), execute, close)

    @asynccontextmanager
    async def _single_async(self, name: str) -> AsyncIterator[None]:
        self.order.append(name)
        async with asyncio.Lock() if self.broken else self._lock(name, asyncio.Lock):
            yield


@pytest.fixture(params=["blocking", "asyncio"])
def model(request: pytest.FixtureRequest) -> tuple[Model, type[Library]]:
    return (Threads(), Library) if request.param == "blocking" else (Tasks(), AsyncLibrary)


@functools.cache
def row_named(name: str) -> LocksRow:
    return next(row for row in lock_rows(short=True) if row.name == name)


def ask(harness: LocksHarness, do: str, name: str, count: int = 0, seconds: float = 0.0) -> dict[str, Any]:
    return done(partial(answer, harness.do), do, row_named(name).spec("nowhere:1", count, seconds))


def test_a_right_library_is_verified_and_timed(model: Any) -> None:
    harness = LocksHarness(model[1](), model[0])
    for name, count, seconds in (
        ("locks:pair:10", 30, 0.0),
        ("locks:mutex:3/5", 40, 0.0),
        ("locks:section:3/5", 0, 3.0),
    ):
        assert ask(harness, "verify", name, count, seconds)["ok"]
        reply = ask(harness, "time", name, count, seconds)
        assert reply["ok"] and reply["wall"] > 0
        assert reply["cycles"] == count or (not count and reply["cycles"] > 0)
        assert (reply["latency"] is None) == (not count)
    assert ask(harness, "time", "locks:ping", 10)["latency"]["median"] > 0


class Crowd(Threads):
    """Threads of which the first to be inside stays there until another one is."""

    def __init__(self) -> None:
        self._inside = itertools.count(1)
        self._two = threading.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds == INSIDE_SECONDS:
            if next(self._inside) == 2:
                self._two.set()
            self._two.wait(60)
        await super().sleep(seconds)


@pytest.mark.parametrize(
    ("model", "library"), [(Crowd(), Library), (Tasks(), AsyncLibrary)], ids=["blocking", "asyncio"]
)
def test_a_lock_that_lets_two_in_is_found(model: Model, library: type[Library]) -> None:
    reply = ask(LocksHarness(library(broken=True), model), "verify", "locks:mutex:3/5", 60)
    assert not reply["ok"] and "inside at once" in reply["reason"]


def test_greenlets_take_turns_without_patching() -> None:
    import gevent
    from gevent.lock import BoundedSemaphore

    class Cooperative(Library):
        @contextmanager
        def _single(self, name: str) -> Iterator[None]:
            with self._lock(name, BoundedSemaphore):
                gevent.sleep(0)
                yield

    harness = LocksHarness(Cooperative(), Greenlets())
    assert ask(harness, "verify", "locks:mutex:1/1", 30)["ok"]
    assert ask(harness, "time", "locks:section:1/1", 0, 3.0)["cycles"] > 0


def test_many_names_are_locked_in_sorted_order() -> None:
    library = Library()
    assert ask(LocksHarness(library, Threads()), "time", "locks:pair:5", 3)["ok"]
    assert library.order == sorted(lock_names(5)) * 3


def test_names_are_those_of_the_seed_and_the_same_every_time() -> None:
    names = lock_names(19)
    assert names == lock_names(19) and len(set(names)) == 19
    assert all(len(name) == 36 and name.endswith(".lck") for name in names)
    rows = [row for row in lock_rows(short=False) if row.workload == "mutex"]
    assert [(row.keys, row.of, row.count, row.workers) for row in rows] == [
        (keys, 2 * keys - 1, 1000, 10) for keys in (1, 2, 3, 5, 10)
    ]


def test_each_row_has_its_contestants() -> None:
    def names(row: str) -> set[str]:
        return {entry.name for entry in all_entries() if entry.takes_part(row_named(row))}

    assert names("locks:pipelined:1") == {"floor"}
    assert {"floor", "Pinyon script", "Pinyon pure gevent", "coredis asyncio", "redis-py gevent"} < names(
        "locks:pair:1"
    )
    assert len(names("locks:mutex:10/19")) == 19 and "floor" not in names("locks:mutex:10/19")
    assert names("locks:handover:8") == {
        *("Pinyon script", "Pinyon pure", "redis-py", "python-redis-lock", "redlock-py", "pottery"),
    }


def test_pinyon_is_used_as_its_pages_say(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []

    class Locks:
        def __init__(self, *arguments: Any, **named: Any) -> None:
            said.append((arguments, named))

        @contextmanager
        def lock(self, *names: str, **named: Any) -> Iterator[None]:
            said.append((names, named))
            yield

        def rate(self, name: str, **named: Any) -> Any:
            return SimpleNamespace(allow=lambda: True)

        def execute(self, *command: str) -> str:
            return "PONG"

        def close(self) -> None:
            said.append("closed")

    monkeypatch.setattr("pinyon.Locks", Locks, raising=False)
    harness = LocksHarness(PURE, Threads())
    assert answer(harness.do, {"do": "describe"})["configuration"].startswith('pinyon.Locks, handler="pure"')
    assert ask(harness, "time", "locks:ping", 2)["cycles"] == 2
    assert ask(harness, "time", "locks:pair:2", 1)["cycles"] == 1
    harness.close()
    opened, (names, named), closed = said
    assert opened == (("redis://nowhere:1/0",), {"namespace": "bench", "handler": "pure"})
    assert sorted(names) == sorted(lock_names(2)) and named == {"ttl": 10_000, "timeout": 60} and closed == "closed"


def test_hand_overs_are_those_to_another_who_waited() -> None:
    replies = [
        {"held": [[0, 10, 100], [105, 400, 410]]},
        {"held": [[20, 130, 200], [205, 210, 220], [390, 450, 500]]},
    ]
    found = held_by_all(replies)
    assert found[0] == Held(0, 0, 10, 100)
    # The second process gets it 30 after the first leaves, then again by itself; the first gets it 180 later; the last,
    # 40.
    assert [round(seconds * 1e9) for seconds in handover_seconds(found)] == [30, 180, 40]


def test_two_processes_that_hold_at_once_are_found() -> None:
    with pytest.raises(ContestantError, match="at once"):
        held_by_all([{"held": [[0, 10, 100]]}, {"held": [[0, 99, 120]]}])


def test_what_was_counted_leaves_asking_out() -> None:
    before = Statistics({"set": 5, "info": 1}, {"set": 50, "info": 9}, 10)
    after = Statistics({"set": 8, "info": 2, "get": 4, "ping": 0}, {"set": 71, "info": 20, "get": 6, "ping": 0}, 18)
    assert after.since(before) == Statistics({"set": 3, "get": 4}, {"set": 21, "get": 6}, 7)


def test_commands_are_named_as_the_statistics_name_them() -> None:
    assert statistics_name("SCRIPT LOAD x") == "script|load"
    assert statistics_name("EVALSHA 0a 1 k") == "evalsha"
    assert statistics_name("ping") == "ping"


def test_without_a_server_the_rows_are_void(document: Document) -> None:
    entry = next(entry for entry in all_entries() if entry.name == "redis-py")
    plan = Plan([row_named("locks:pair:1")], [entry], 1, 0, 0.01)
    Runner(plan, [], None, None, None, document, lambda _: None).run()
    assert [gap.reason for gap in document.gaps if gap.contestant == "redis-py"] == [NO_LOCK_SERVER]


def test_a_server_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module.shutil, "which", lambda name: None)
    with pytest.raises(ServerError, match="apt-get install redis-server"), start_lock_server(None):
        pass


@pytest.fixture(scope="module")
def lock_server() -> Iterator[LockServer]:
    with start_lock_server(place(UNPINNED).server) as server:
        yield server


@needs_redis
def test_the_server_ends_with_its_context() -> None:
    with start_lock_server(None) as server:
        process: subprocess.Popen[bytes] = server.process
        assert process.poll() is None and server.version()
    assert process.poll() is not None


@needs_redis
def test_commands_of_clients_and_of_scripts_are_told_apart(lock_server: LockServer) -> None:
    client = lock_server.connection
    lock_server.reset()
    with listening(lock_server) as origins:
        client.eval("redis.call('SET', KEYS[1], 'a b') return redis.call('GET', KEYS[1])", 1, "k")
        client.get("k")
    # The benchmark's own new connection sends hello.
    origins.sent.pop("hello", None)
    assert origins == Origins({"eval": 1, "get": 1}, {"set": 1, "get": 1})
    assert (origins.share_sent("get"), origins.share_sent("set")) == (0.5, 0.0)
    # Unheard commands count as a script's, unless no script can call them or there are no scripts.
    assert (origins.share_sent("del"), origins.share_sent("client|setinfo")) == (0.0, 1.0)
    assert Origins(Counter(set=1)).share_sent("del") == 1.0


@needs_redis
def test_a_lock_that_stays_is_found(lock_server: LockServer) -> None:
    lock_server.reset()
    lock_server.connection.set("short", 1, px=1000)
    lock_server.connection.set("lock:a", 1, px=10_000_000)
    assert lock_server.locks_left(10_000) == ["lock:a"]
    lock_server.reset()
    assert lock_server.locks_left(10_000) == []


@needs_redis
@needs_floor
def test_a_short_real_run(lock_server: LockServer, document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks_cells, "LONGEST_CELLS", math.inf)  # however slow the machine is
    wanted = (
        *("locks:ping", "locks:pair:1", "locks:pipelined:10", "locks:mutex:1/1", "locks:handover:8"),
        *("locks:far:ping", "locks:far:handover:8"),
    )
    entries = [entry for entry in all_entries() if entry.name in ("redis-py", "floor")]
    document.contestants = [described(entry) for entry in entries]
    document.samples, document.gaps = [], []
    Runner(
        Plan([row_named(name) for name in wanted], entries, 1, 0, 0.02),
        [],
        None,
        lock_server,
        None,
        document,
        lambda _: None,
    ).run()
    assert document.gaps == []
    timed = {(sample.row, sample.contestant): sample for sample in document.samples}
    work = {(each.row, each.contestant): each for each in document.server_work}
    assert timed.keys() == work.keys()
    assert {name for row, name in timed if row == "locks:pair:1"} == {"redis-py", "floor"}
    assert timed["locks:mutex:1/1", "redis-py"].operations == 1000
    pair, pipelined = work["locks:pair:1", "redis-py"], work["locks:pipelined:10", "floor"]
    assert sum(pair.sent.values()) == 2 * pair.cycles and pair.calls["get"] == pair.cycles and pair.microseconds > 0
    # The floor loads its two scripts when it connects, with a read for each. One more read notices its disconnection.
    assert pipelined.sent["evalsha"] == 2 * pipelined.cycles and 2 <= pipelined.reads - pipelined.cycles <= 3
    assert document.handovers[0].taken == timed["locks:handover:8", "redis-py"].operations > 0
    far = timed["locks:far:ping", "floor"].latency
    assert far is not None and far.median >= 2 * FAR_ONE_WAY_MILLISECONDS / 1000


def described(entry: Any) -> Any:
    from pinyon_bench.contestant import Contestant

    contestant = Contestant(entry, None)
    try:
        return describe(contestant)
    finally:
        contestant.close()


@needs_redis
def test_cells_that_would_take_too_long_are_left_out(lock_server: LockServer) -> None:
    from pinyon_bench.contestant import Contestant

    entry = next(entry for entry in all_entries() if entry.name == "redis-py")
    contestant, cells = Contestant(entry, None), LocksCells(lock_server, "", None, 0.001)
    try:
        with pytest.raises(ContestantError, match="not timed"):
            cells.verify(contestant, row_named("locks:mutex:10/19"))
    finally:
        contestant.close()
        cells.close()


class Steady:
    """A contestant whose workers need a millisecond for a cycle."""

    entry = SimpleNamespace(name="steady")

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        cycles = request["row"]["count"]
        return {"ok": True, "cycles": cycles, "wall": cycles / 1000, "user": 0.0, "system": 0.0, "inside": []}

    def counted(self, lock_server: LockServer, row: str) -> int:
        """Returns how many cycles fill a cell of half a second."""
        cells: Any = LocksCells(lock_server, "", None, 0.5)
        cells.verify(self, row_named(row))
        return cells.time(self, row_named(row), 1).sample.operations


@needs_redis
def test_each_worker_fills_the_cell_unless_the_row_says_how_often(lock_server: LockServer) -> None:
    assert Steady().counted(lock_server, "locks:pair:1") == 500
    assert Steady().counted(lock_server, "locks:writers:16") == 160
    assert Steady().counted(lock_server, "locks:readers:16") == 3200
