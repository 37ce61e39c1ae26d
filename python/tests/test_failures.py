"""One of four servers is dead, silent or slow, in every concurrency model: the cost, and the effect of the policies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from faulty import STALL, FaultyServer, Step
from models import BLOCKING, Model, cooperative, every_model, run_by
from servers import Memcached
from waiting import GIVES_UP

import pinyon

Connect = Callable[..., Any]

#: Servers that are well answer within the first one even on a busy machine. The second one is for what only fails.
TIMEOUT, SHORT_TIMEOUT = 3.0, 1.0
#: The shortest time between two probes.
BACK_OFF = 0.25 * 3 / 4
KEYS = [f"key:{number}" for number in range(60)]
#: Answers that take too long to arrive completely.
DRIP = Step("VA 1000 f0 O{opaque}\r\n{x*1000}", drip_ms=20)


@dataclass
class Fleet:
    servers: list[Memcached]
    lost: Memcached
    lost_keys: list[str]
    faults: contextlib.ExitStack

    @property
    def addresses(self) -> list[str]:
        return [server.address for server in self.servers]

    @property
    def other_keys(self) -> list[str]:
        return [key for key in KEYS if key not in self.lost_keys]

    def kill(self) -> None:
        self.lost.stop()

    def blackhole(self) -> None:
        self.lost.pause()
        self.faults.callback(self.lost.resume)

    def slow_down(self) -> None:
        self.lost.stop()
        self.faults.enter_context(FaultyServer(DRIP, port=self.lost.port))


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Memcached()) for _ in range(4)]
        with pinyon.Client([server.address for server in servers], timeout=20, connect_timeout=20) as client:
            assert client.set_many(dict.fromkeys(KEYS, "value")) == []
        lost_keys = [key for key in KEYS if servers[2].holds(key)]
        assert 3 <= len(lost_keys) <= 40
        yield Fleet(servers, servers[2], lost_keys, stack.enter_context(contextlib.ExitStack()))


@pytest.fixture
def gutter() -> Iterator[Memcached]:
    with Memcached() as server:
        yield server


every_fault = pytest.mark.parametrize("fault", [Fleet.kill, Fleet.blackhole, Fleet.slow_down], ids=lambda f: f.__name__)
#: A server that drips is slow and not down: see test_evidence.py.
every_outage = pytest.mark.parametrize("fault", [Fleet.kill, Fleet.blackhole], ids=lambda f: f.__name__)


async def outcome(attempt: Awaitable[Any]) -> Any:
    try:
        return await attempt
    except pinyon.Error as error:
        return error


async def marked_down(cache: Any, fleet: Fleet) -> None:
    """Marks the server down, under any policy: at the cost of a timeout, or of two that a busy loop sees late."""
    for _ in range(2):
        await outcome(cache.get(fleet.lost_keys[0]))
        if f"{fleet.lost.address} down" in " ".join(cache.describe()):
            return
    pytest.fail(f"{fleet.lost.address} is in use: {cache.describe()}")


@every_model
@every_outage
async def test_a_lost_server_costs_a_timeout_in_a_back_off_period_and_the_others_nothing(
    model: Model, connect: Connect, fleet: Fleet, fault: Callable[[Fleet], None]
) -> None:
    cache = connect(*fleet.servers, timeout=TIMEOUT, failover=False)
    assert len(await cache.get_many(KEYS)) == len(KEYS)
    fault(fleet)
    begun = time.monotonic()
    outcomes = []
    for _ in range(5):
        outcomes += [await outcome(cache.get(key)) for key in fleet.lost_keys]
        assert [await cache.get(key) for key in fleet.other_keys] == ["value"] * len(fleet.other_keys)
    periods = 1 + (time.monotonic() - begun) / BACK_OFF
    assert all(isinstance(each, pinyon.Error) for each in outcomes), outcomes
    assert sum(isinstance(each, pinyon.Timeout) for each in outcomes) <= periods
    refused_at_once = [each for each in outcomes if isinstance(each, pinyon.ServerDown)]
    assert {each.sent for each in refused_at_once} == {"no"}


@cooperative
async def test_a_loop_that_is_held_up_does_not_count_against_a_server_that_is_well(
    model: Model, connect: Connect, own_server: Memcached
) -> None:
    cache = connect(own_server, timeout=SHORT_TIMEOUT)
    assert await model.eventually(lambda: cache.set("key", "value"))

    async def hold_up() -> None:
        time.sleep(3 * SHORT_TIMEOUT)

    async def get_meanwhile() -> Any:
        asked = model.spawn(outcome(cache.get("key")))
        await model.join(model.spawn(hold_up()))
        return await model.join(asked)

    asked = model.spawn(cache.get("key"))
    await model.sleep(0.01)
    await hold_up()
    assert await model.join(asked) == "value"

    late = await get_meanwhile()
    assert late == "value" or "the event loop was blocked" in str(late)
    assert await cache.get("key") == "value"

    own_server.pause()
    assert "the event loop was blocked" in str(await get_meanwhile())
    assert "the event loop was blocked" in str(await get_meanwhile())
    assert isinstance(await outcome(cache.get("key")), pinyon.ServerDown)


@every_model
@every_outage
async def test_with_failover_the_next_server_takes_its_keys(
    model: Model, connect: Connect, fleet: Fleet, fault: Callable[[Fleet], None]
) -> None:
    cache = connect(*fleet.servers, timeout=TIMEOUT)
    fault(fleet)
    await marked_down(cache, fleet)
    for key in fleet.lost_keys:
        assert await model.eventually(lambda key=key: cache.set(key, "elsewhere"))  # type: ignore[misc]
    assert await model.eventually(lambda: cache.get(fleet.lost_keys[0])) == "elsewhere"
    found = await model.eventually(lambda: cache.get_many(KEYS))
    assert found == dict.fromkeys(fleet.other_keys, "value") | dict.fromkeys(fleet.lost_keys, "elsewhere")


#: Every operation on a key, and its result without a server if failures are misses.
MISSES: dict[str, tuple[Callable[[Any, str], Any], Any]] = {
    "get": (lambda cache, key: cache.get(key), None),
    "get with default": (lambda cache, key: cache.get(key, "default"), "default"),
    "gets": (lambda cache, key: cache.gets(key), None),
    "gat": (lambda cache, key: cache.gat(key, 10), None),
    "meta": (lambda cache, key: cache.meta(key), None),
    "touch": (lambda cache, key: cache.touch(key, 10), False),
    "set": (lambda cache, key: cache.set(key, 1), False),
    "add": (lambda cache, key: cache.add(key, 1), False),
    "replace": (lambda cache, key: cache.replace(key, 1), False),
    "append": (lambda cache, key: cache.append(key, "1"), False),
    "cas": (lambda cache, key: cache.cas(key, 1, 1), None),
    "delete": (lambda cache, key: cache.delete(key), False),
    "incr": (lambda cache, key: cache.incr(key, initial=1), None),
    "get_many": (lambda cache, key: cache.get_many([key]), {}),
    "gets_many": (lambda cache, key: cache.gets_many([key]), {}),
    "set_many": (lambda cache, key: cache.set_many({key: 1}), None),
    "delete_many": (lambda cache, key: cache.delete_many([key]), 0),
    "gat_many": (lambda cache, key: cache.gat_many([key], 60), {}),
    "touch_many": (lambda cache, key: cache.touch_many([key], 60), []),
}


@every_model
@pytest.mark.parametrize("fault", [Fleet.kill, Fleet.blackhole], ids=lambda f: f.__name__)
async def test_a_failure_may_be_a_miss(
    model: Model, connect: Connect, fleet: Fleet, fault: Callable[[Fleet], None]
) -> None:
    cache = connect(*fleet.servers, timeout=TIMEOUT, failover=False, on_failure="miss")
    fault(fleet)
    for name, (operation, expected) in MISSES.items():
        for key in fleet.lost_keys[:2]:
            miss = [key] if name == "set_many" else expected
            assert await operation(cache, key) == miss, name
    assert await cache.get_many(KEYS) == dict.fromkeys(fleet.other_keys, "value")
    assert await cache.set_many(dict.fromkeys(KEYS, "new")) == fleet.lost_keys
    assert await cache.touch_many(KEYS, 60) == fleet.other_keys
    assert await cache.delete_many(KEYS) == len(fleet.other_keys)
    failed: dict[str, pinyon.Error] = {}
    assert await cache.get_many(KEYS, failed=failed) == {}
    assert list(failed) == [fleet.lost.address]
    for wrong in (cache.get, cache.delete):
        with pytest.raises(pinyon.InvalidKey):
            await wrong("a key with spaces")
    with pytest.raises(pinyon.Error):
        await cache.stats()


@every_model
async def test_a_quiet_batch_reports_what_failed_under_every_policy(
    model: Model, connect: Connect, fleet: Fleet
) -> None:
    cache = connect(*fleet.servers, timeout=TIMEOUT, failover=False, on_failure="miss")
    fleet.kill()
    await marked_down(cache, fleet)
    lost, other = fleet.lost_keys[0], fleet.other_keys[0]

    async def batch_of_both() -> None:
        async with cache.quiet() as batch:
            await batch.set(lost, "lost")
            await batch.set(other, "stored")

    with pytest.raises(pinyon.BatchError) as raised:
        await batch_of_both()
    (failure,) = raised.value.failures
    assert (failure.key, failure.command) == (lost, "set")
    assert failure.error is not None
    assert failure.error.server == fleet.lost.address
    assert await cache.get(other) == "stored"


@every_model
@every_outage
async def test_the_gutter_takes_the_keys_of_a_lost_server_for_a_while(
    model: Model, connect: Connect, fleet: Fleet, gutter: Memcached, fault: Callable[[Fleet], None]
) -> None:
    cache = connect(*fleet.servers, timeout=TIMEOUT, gutter=[gutter.address], gutter_ttl=100)
    assert await cache.set(fleet.lost_keys[0], "there") is True
    assert not gutter.holds(fleet.lost_keys[0])
    fault(fleet)
    await marked_down(cache, fleet)
    stored, short, number = fleet.lost_keys[:3]

    async def in_gutter(attempt: Callable[[], Any]) -> Any:
        return await model.eventually(attempt)

    assert await in_gutter(lambda: cache.set(stored, "value"))
    assert await in_gutter(lambda: cache.set(short, "value", ttl=30))
    assert await in_gutter(lambda: cache.incr(number, initial=1)) == 1
    assert await in_gutter(lambda: cache.set_many(dict.fromkeys(KEYS, "many"), ttl=1000)) == []
    assert await in_gutter(lambda: cache.get_many(KEYS)) == dict.fromkeys(KEYS, "many")
    assert all(gutter.holds(key) for key in fleet.lost_keys)
    assert not any(gutter.holds(key) for key in fleet.other_keys)
    for key in fleet.lost_keys:
        assert 90 <= ttl(gutter, key) <= 100
    assert await in_gutter(lambda: cache.touch(stored, 0))
    assert await in_gutter(lambda: cache.set(short, "value", ttl=30))
    assert 0 < ttl(gutter, stored) <= 100
    assert 0 < ttl(gutter, short) <= 30
    with pytest.raises((pinyon.ServerDown, pinyon.Timeout, pinyon.ConnectError)):
        await cache.using(failover=False).get(stored)


def ttl(server: Memcached, key: str) -> int:
    """The seconds until an item expires; -1 if it never does."""
    return int(server.ask(b"mg %s t\r\n" % key.encode(), b"\r\n").split()[1][1:])


@every_model
async def test_a_view_has_its_own_policy_and_shares_the_rest(model: Model, connect: Connect, fleet: Fleet) -> None:
    cache = connect(*fleet.servers, timeout=TIMEOUT)
    fleet.kill()
    key = fleet.lost_keys[0]
    strict, forgiving = cache.using(failover=False), cache.using(failover=False, on_failure="miss")
    await marked_down(cache, fleet)
    assert await cache.set(key, "elsewhere")
    for _ in range(3):
        assert isinstance(await outcome(strict.get(key)), pinyon.Error)
        assert await forgiving.get(key) is None
        assert isinstance(await outcome(forgiving.using(on_failure="raise").get(key)), pinyon.Error)
        assert await cache.get(key) == "elsewhere"
    forgiving.close()
    with pytest.raises(pinyon.Closed):
        await cache.get(key)


@every_model
async def test_there_is_one_probe_in_a_back_off_period_however_many_ask(model: Model, connect: Connect) -> None:
    with FaultyServer(STALL) as silent:
        cache = connect(silent, timeout=SHORT_TIMEOUT)
        while not isinstance(await outcome(cache.get("key")), pinyon.ServerDown):
            pass
        before, begun = len(silent.requests), time.monotonic()

        async def ask() -> int:
            timeouts = 0
            while time.monotonic() < begun + 3:
                timeouts += isinstance(await outcome(cache.get("key")), pinyon.Timeout)
                await model.sleep(0.005)
            return timeouts

        timeouts = await model.gather(ask() for _ in range(20))
        periods = 1 + (time.monotonic() - begun) / BACK_OFF
        assert 1 <= sum(timeouts) <= periods
        assert 1 <= len(silent.requests) - before <= periods


@cooperative
async def test_a_connection_that_is_never_idle_is_noticed_to_be_dead(
    model: Model, connect: Connect, own_server: Memcached
) -> None:
    cache = connect(own_server, timeout=SHORT_TIMEOUT)
    assert await model.eventually(lambda: cache.set("key", "value"))
    own_server.pause()
    try:
        tasks = []
        for _ in range(120):
            tasks.append(model.spawn(outcome(cache.get("key"))))
            await model.sleep(0.02)
        outcomes = [await model.join(task) for task in tasks]
    finally:
        own_server.resume()
    assert sum(isinstance(each, pinyon.ServerDown) for each in outcomes) > 10
    assert await model.eventually(lambda: cache.get("key")) == "value"


@run_by([BLOCKING])
async def test_who_waits_for_a_connection_to_a_server_that_went_down_does_not_try_it_too(
    model: Model, connect: Connect
) -> None:
    with FaultyServer(STALL) as silent:
        cache = connect(silent, timeout=SHORT_TIMEOUT, max_connections=1)
        outcomes = await model.gather(cache.get("key") for _ in range(8))
    assert all(isinstance(each, pinyon.Error) for each in outcomes)
    assert silent.accepted == 1


@every_model
@every_fault
async def test_many_keys_cost_one_timeout_and_bring_what_arrived(
    model: Model, connect: Connect, fleet: Fleet, fault: Callable[[Fleet], None]
) -> None:
    cache = connect(*fleet.servers, timeout=TIMEOUT, failover=False)
    fault(fleet)
    for _ in range(20):
        error = await outcome(cache.get_many(KEYS))
        assert isinstance(error, pinyon.Error)
        assert error.partial == dict.fromkeys(fleet.other_keys, "value")
        assert error.server == fleet.lost.address
    assert isinstance(error, (pinyon.ServerDown, pinyon.Timeout, pinyon.ConnectError))


@every_model
async def test_a_server_that_was_killed_is_in_use_again_after_its_restart(
    model: Model, connect: Connect, fleet: Fleet
) -> None:
    cache = connect(*fleet.servers, timeout=TIMEOUT, failover=False, on_failure="miss")
    key = fleet.lost_keys[0]
    fleet.kill()
    for _ in range(50):
        assert await cache.set(key, "lost") is False
        await model.sleep(0.01)
    fleet.lost.restart()
    await model.until(lambda: cache.set(key, "back"))
    assert await cache.get(key) == "back"


@every_model
async def test_a_name_that_does_not_resolve_is_named_and_what_to_do(
    model: Model, connect: Connect, locks_on: Callable[..., Any]
) -> None:
    address = "pinyon.invalid:7"
    locks = locks_on(f"redis://{address}", command_timeout=GIVES_UP)
    for attempt in (connect(address).get("key"), connect(address).get_many(["key"]), locks.try_lock("name")):
        with pytest.raises(pinyon.ConnectError, match=r"does not resolve .*: check that it is spelled right") as raised:
            await attempt
        assert raised.value.server == address
        assert raised.value.sent == "no"


#: A read and a write, and how many times each is sent if the connection breaks instead of a reply.
SENT: dict[str, tuple[Callable[[Any], Any], int]] = {
    "get": (lambda cache: cache.get("key"), 2),
    "set": (lambda cache: cache.set("key", 1), 1),
}


@every_model
@pytest.mark.parametrize("command", SENT)
async def test_only_what_reads_is_sent_twice(model: Model, connect: Connect, command: str) -> None:
    use, times = SENT[command]
    with FaultyServer(Step(cut=0)) as server:
        error = await outcome(use(connect(server)))
        assert isinstance(error, pinyon.ConnectionLost)
        assert error.sent == "maybe"
        assert len(server.requests) == times


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"on_failure": "next"}, pinyon.UsageError, 'on_failure must be "raise" or "miss", not "next"'),
        ({"on_failure": 1}, TypeError, "on_failure"),
        ({"gutter": []}, pinyon.InvalidServers, "empty"),
        ({"gutter": "a:0"}, pinyon.InvalidServers, "the port is not"),
        ({"gutter": "127.0.0.1:11211"}, pinyon.InvalidServers, "both as a server and in the gutter"),
        ({"gutter_ttl": 0}, pinyon.UsageError, "gutter_ttl must be positive"),
        ({"gutter_ttl": 1e9}, pinyon.UsageError, "gutter_ttl"),
        ({"on_event": "print"}, pinyon.UnsupportedType, "on_event"),
        ({"slow_after": 0}, pinyon.UsageError, "slow_after"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pinyon.Client("127.0.0.1:11211", **settings)


def test_a_view_is_of_the_same_class() -> None:
    class Cache(pinyon.Client):
        pass

    with Cache("127.0.0.1:11211") as cache:
        assert type(cache.using(failover=False)) is Cache
        with pytest.raises(pinyon.UsageError, match="on_failure"):
            cache.using(on_failure="next")  # type: ignore[arg-type]
