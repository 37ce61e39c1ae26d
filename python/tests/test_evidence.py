"""What counts as evidence against a server: silence does, and a slow link, a lost connection or a limit does not."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from faulty import STALL, FaultyServer, Step
from links import ForgetfulLink, SlowLink
from models import Model, cooperative, every_model
from processes import what_it_prints
from servers import Memcached

import pinyon

#: Half of it is enough for a request on a machine that is busy.
TIMEOUT = 6
LARGE = 400_000
#: Longer than a connection is trusted without being asked.
REST = 1.2


@pytest.fixture
def events() -> list[pinyon.Event]:
    return []


def kinds(events: list[pinyon.Event]) -> set[str]:
    return {event.kind for event in events} - {"retry"}


@every_model
async def test_a_server_that_sends_is_not_marked_down_and_small_reads_pass_large_replies(
    model: Model, roomy: Memcached, events: list[pinyon.Event]
) -> None:
    keys = [f"{model.name}:{n}" for n in range(60)]
    with pinyon.Client(roomy.address, timeout=60) as filler:
        filler.set_many(dict.fromkeys(keys, b"x" * LARGE) | {"small": "value"}, ttl=600)
    with SlowLink(roomy, rate=1_000_000) as link:
        async with model.client(link.address, timeout=TIMEOUT, on_event=events.append) as cache:
            assert await cache.get("small") == "value"
            bulk = model.spawn(cache.get_many(keys))
            await model.until(lambda: link.large_pieces > 0)
            beside = [cache.get("small") for _ in range(20)]
            outcomes = await model.gather(beside)
            with pytest.raises(pinyon.Timeout) as raised:
                await model.join(bulk)
            outcomes += await model.gather([cache.get("small") for _ in range(20)])
    assert outcomes == ["value"] * 40
    assert kinds(events) == set()
    arrived = re.search(r"(\d+) of 60 values arrived within 6 s: raise .timeout.", str(raised.value))
    assert arrived
    assert int(arrived[1]) == len(raised.value.partial) > 0
    assert "may have been executed" not in str(raised.value)


@every_model
async def test_a_silent_server_is_marked_down(model: Model, events: list[pinyon.Event]) -> None:
    with FaultyServer(STALL) as silent:
        async with model.client(silent.address, timeout=1, connect_timeout=1, on_event=events.append) as cache:

            async def is_down() -> bool:
                for outcome in await model.gather([cache.get("key"), cache.get("other")]):
                    assert isinstance(outcome, (pinyon.Timeout, pinyon.ServerDown)), outcome
                    assert "may have been executed" not in str(outcome)
                return "down" in kinds(events)

            # A loop that is held up blames nobody for one timeout alone.
            await model.until(is_down)


@every_model
async def test_a_server_that_drips_fails_what_it_answers_too_slowly_and_nothing_else(
    model: Model, events: list[pinyon.Event]
) -> None:
    drip = Step("VA 600 f16 O{opaque}\r\n{x*600}\r\n", drip_ms=50)
    with FaultyServer(drip) as slow:
        async with model.client(slow.address, timeout=2, connect_timeout=2, on_event=events.append) as cache:
            with pytest.raises(pinyon.Timeout, match="the reply was still arriving"):
                await cache.get("key")
            assert "up" in cache.describe()[0]
    assert kinds(events) == set()


@every_model
async def test_what_was_idle_and_is_lost_is_late_and_does_not_fail(
    model: Model, server: Memcached, events: list[pinyon.Event]
) -> None:
    with ForgetfulLink(server) as link:
        async with model.client(link.address, timeout=TIMEOUT, on_event=events.append) as cache:
            assert await cache.set("key", 1)
            await model.gather([cache.get("key") for _ in range(8)])
            await model.sleep(REST)
            link.forget()
            commands = [cache.get("key"), cache.set("other", "value"), cache.incr("key"), cache.get_many(["key"])]
            outcomes = await model.gather(commands)
            assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
            assert await cache.get("key") == 2
    assert kinds(events) == set()


@every_model
async def test_a_lost_connection_brings_back_no_old_value(
    model: Model, server: Memcached, own_server: Memcached, events: list[pinyon.Event]
) -> None:
    with ForgetfulLink(server) as first, ForgetfulLink(own_server) as second:
        servers = [first.address, second.address]
        async with model.client(servers, timeout=TIMEOUT, on_event=events.append) as cache:
            assert await cache.set("key", "v1")
            await model.sleep(REST)
            first.forget()
            second.forget()
            assert await cache.set("key", "v2")
            assert await cache.set("key", "v3")
            assert await cache.get("key") == "v3"
    assert kinds(events) == set()


@cooperative
async def test_a_loop_that_is_busy_marks_no_server_down(
    model: Model, roomy: Memcached, events: list[pinyon.Event]
) -> None:
    keys = [f"{model.name}:{n}" for n in range(100)]
    with pinyon.Client(roomy.address, timeout=60) as filler:
        filler.set_many(dict.fromkeys(keys, b"x" * 200_000), ttl=600)
    async with model.client(roomy.address, timeout=1, connect_timeout=1, on_event=events.append) as cache:

        async def computes(seconds: float, times: int) -> None:
            for _ in range(times):
                time.sleep(seconds)
                await model.sleep(0)

        for seconds, times in ((0.2, 10), (1.5, 2)):
            reads = [model.spawn(cache.get_many(keys)), model.spawn(cache.get(keys[0]))]
            await computes(seconds, times)
            for read in reads:
                with contextlib.suppress(pinyon.Timeout):
                    await model.join(read)
    assert kinds(events) == set()


@pytest.mark.parametrize("limit", ["maxconns_fast", "no_maxconns_fast"])
@every_model
async def test_callers_share_the_connections_that_a_server_takes(
    model: Model, limit: str, events: list[pinyon.Event]
) -> None:
    many = {} if model.name == "blocking" else {"connections": 40}
    with Memcached("-t", "2", "-c", "24", "-o", limit) as server:
        async with model.client(server.address, timeout=TIMEOUT, on_event=events.append, **many) as cache:
            keys = [f"key:{n}" for n in range(40)]
            await cache.set_many(dict.fromkeys(keys, "value"))

            async def reads(key: str) -> int:
                return sum([await cache.get(key) == "value" for _ in range(20)])

            assert await model.gather([reads(key) for key in keys]) == [20] * 40
    assert kinds(events) <= {"crowded"}


def test_the_warning_of_a_limit_names_both_settings_and_comes_once(events: list[pinyon.Event]) -> None:
    with (
        Memcached("-t", "2", "-c", "24") as server,
        pinyon.Client(server.address, timeout=TIMEOUT, on_event=events.append) as cache,
    ):
        barrier = threading.Barrier(40)

        def read() -> None:
            barrier.wait(60)
            for _ in range(10):
                assert cache.get("key") is None
                time.sleep(0.01)

        threads = [threading.Thread(target=read) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    [told] = [event for event in events if event.kind == "crowded"]
    assert re.search(r"this process has \d+ connections .* -c, or lower max_connections \(64\)", str(told))


def test_several_processes_share_the_connections_that_a_server_takes() -> None:
    with Memcached("-t", "2", "-c", "24") as server:
        program = f"""
import threading, pinyon
cache = pinyon.Client({server.address!r}, timeout={TIMEOUT})
done = []
def read():
    for _ in range(50):
        try:
            cache.get("key")
            done.append(True)
        except pinyon.Error as error:
            done.append(False)
threads = [threading.Thread(target=read) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(done))
"""
        with ThreadPoolExecutor(3) as processes:
            counts = [int(line) for line in processes.map(what_it_prints, [program] * 3)]
    assert min(counts) >= 950, counts


def test_a_process_without_free_descriptors_shares_what_it_has(server: Memcached) -> None:
    program = f"""
import resource, socket, threading, pinyon
cache = pinyon.Client({server.address!r}, timeout={TIMEOUT})
cache.set("key", "value")
taken = []
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    while True:
        taken.append(socket.socket())
except OSError:
    pass
wrong = []
def read():
    for _ in range(20):
        try:
            if cache.get("key") != "value": wrong.append("value")
        except pinyon.Error as error:
            wrong.append(repr(error))
threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(wrong), wrong[:1])
"""
    assert what_it_prints(program) == "0 []"
