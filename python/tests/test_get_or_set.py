"""get_or_set: one caller makes a value, however many others want it, and whatever happens to the maker."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from faulty import STALL, FaultyServer, OlderServer, Step
from gate import Gate
from making import LONG, KilledError, Maker, awaited, following, never
from models import BLOCKING, Asyncio, CancelledError, Model, cooperative, drive, every_model
from servers import Memcached
from waiting import SOON

import pinyon
from pinyon import Outcome

Connect = Callable[..., Any]
Faults = Callable[..., FaultyServer]


@pytest.fixture
def connect(connect: Connect) -> Connect:
    """Makes clients whose timeouts allow a thousand simultaneous callers."""
    return partial(connect, connect_timeout=20)


@pytest.mark.parametrize("clients", [1, 4])
@every_model
async def test_a_missing_value_is_made_once(model: Model, clients: int, server: Memcached, connect: Connect) -> None:
    maker = Maker(model, {"made": [1, 2]}, held=True)
    callers = 60 if model is BLOCKING else 1000
    caches = [connect(server) for _ in range(clients)]
    scenarios = (caches[number % clients].get_or_set("key", maker.make, 60) for number in range(callers))
    waiting = [model.spawn(scenario) for scenario in scenarios]
    await maker.begun()
    maker.held = False
    outcomes = [await model.join(task) for task in waiting]
    assert maker.calls == 1
    assert outcomes == [{"made": [1, 2]}] * callers
    assert len({id(outcome["made"]) for outcome in outcomes}) == callers, "each has its own"
    assert await caches[0].get_or_set("key", never, 60) == {"made": [1, 2]}


@every_model
async def test_those_of_one_process_ask_the_server_once(model: Model, own_server: Memcached, connect: Connect) -> None:
    cache = connect(own_server)
    maker = Maker(model, "value", held=True)
    tasks = [model.spawn(cache.get_or_set("key", maker.make, 60)) for _ in range(20)]
    await maker.begun()
    await model.until(lambda: following(cache) == 19)
    maker.held = False
    assert [await model.join(task) for task in tasks] == ["value"] * 20
    assert [own_server.statistic(name) for name in ("cmd_get", "cmd_set")] == [1, 1]
    assert getattr(cache, "wrapped", cache)._flights == []


@every_model
async def test_of_a_value_that_is_to_end_only_the_winner_waits(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)
    await cache.set("key", "old", ttl=50)
    maker = Maker(model, "new", held=True)
    winner = model.spawn(cache.get_or_set("key", maker.make, 100, early=90))
    await maker.begun()
    for each in (cache, other):
        for terms in ({"early": 90}, {"stale": 10, "early": 80}):
            assert await each.get_or_set("key", never, 100, wait=0, **terms) == "old"
    maker.held = False
    assert await model.join(winner) == "new"
    assert await other.get_or_set("key", never, 100, early=90) == "new"
    assert (await other.meta("key")).ttl > 90


@every_model
async def test_who_waits_for_an_answer_is_given_what_there_is(model: Model, gate: Gate, connect: Connect) -> None:
    """They joined a caller that was still asking, and did not know yet that it would have to make the value."""
    cache = connect(gate)
    await cache.set("key", ["old"], ttl=50)
    held = gate.hold(replies=0)
    maker = Maker(model, ["new"], held=True)
    winner = model.spawn(cache.get_or_set("key", maker.make, 100, early=90))
    await model.until(held.is_set)
    others = [model.spawn(cache.get_or_set("key", never, 100, early=90)) for _ in range(5)]
    await model.until(lambda: following(cache) == 5)
    gate.release()
    assert [await model.join(other) for other in others] == [["old"]] * 5
    maker.held = False
    assert await model.join(winner) == ["new"]


@every_model
async def test_the_ttl_is_that_of_a_fresh_and_a_stale_value(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    for key, ttl, stale, expected in [("a", 100, 0, 100), ("b", 100.5, 50, 151), ("c", 40 * 86400, 9, 40 * 86400 + 9)]:
        await cache.get_or_set(key, lambda: "value", ttl, stale=stale)
        assert expected - 10 < (await cache.meta(key)).ttl <= expected + 10
    await cache.get_or_set("end", lambda: "value", 0)
    assert (await cache.meta("end")).ttl is None


MAKER = """
import sys, time, pinyon
def make():
    print("making", flush=True)
    time.sleep(1000)
pinyon.Client(sys.argv[1], timeout=20, connect_timeout=20).get_or_set("key", make, 60, lease=int(sys.argv[2]))
"""


@contextlib.contextmanager
def maker_elsewhere(server: Memcached, lease: int) -> Any:
    """Another process that is making the value."""
    command = [sys.executable, "-c", MAKER, server.address, str(lease)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "making\n"
        try:
            yield process
        finally:
            process.kill()


@every_model
async def test_a_maker_that_is_killed_holds_nobody_beyond_its_lease(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    maker = Maker(model, "value")
    with maker_elsewhere(server, 1) as process:
        waiting = [model.spawn(cache.get_or_set("key", maker.make, 60)) for _ in range(5)]
        process.kill()
        assert [await model.join(task) for task in waiting] == ["value"] * 5
    assert maker.calls == 1


@every_model
async def test_who_waits_in_vain_is_told(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    with maker_elsewhere(server, LONG):
        for wait in (0, 0.2):
            with pytest.raises(pinyon.LeaseTimeout, match="'key' is still being made by another caller"):
                await cache.get_or_set("key", never, 60, wait=wait)
        assert await cache.get("key") is None, "a placeholder is no value"
        assert await cache.gets("key") is None
        assert not await cache.add("key", "other")
    assert issubclass(pinyon.LeaseTimeout, (pinyon.Timeout, TimeoutError))


@every_model
async def test_who_waits_in_vain_for_a_maker_of_its_own_process(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    maker = Maker(model, "value", held=True)
    making = model.spawn(cache.get_or_set("key", maker.make, 60))
    await maker.begun()
    for wait in (0, 0.1):
        with pytest.raises(pinyon.LeaseTimeout):
            await cache.get_or_set("key", never, 60, wait=wait)
    maker.held = False
    assert await model.join(making) == "value"


@every_model
async def test_what_make_raises_is_raised_and_the_next_caller_makes_at_once(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)
    error = LookupError("the database is gone")
    maker = Maker(model, error, held=True)
    tasks = [model.spawn(cache.get_or_set("key", maker.make, 60, lease=LONG)) for _ in range(5)]
    await model.until(lambda: following(cache) == 4)
    maker.held = False
    raised = []
    for task in tasks:
        with pytest.raises(LookupError) as caught:
            await model.join(task)
        raised.append(caught.value)
    assert all(each is error for each in raised)
    assert maker.calls == 1
    assert not server.holds("key")
    assert await other.get_or_set("key", lambda: "value", 60, wait=0) == "value"


@every_model
async def test_a_stale_value_outlives_a_maker_that_fails(model: Model, server: Memcached, connect: Connect) -> None:
    cache, other = connect(server), connect(server)
    await cache.set("key", "old", ttl=50)
    for _ in range(2):
        with pytest.raises(LookupError):
            await cache.get_or_set("key", Maker(model, LookupError()).make, 100, early=90)
        lease = await other.lease("key", recache=90)
        assert (lease.state, lease.value) == (Outcome.WON, "old")
        assert (await other.meta("key")).ttl > 40
        assert await awaited(lease.give_back())
    assert await cache.get_or_set("key", lambda: "new", 100, early=90, wait=0) == "new"


@every_model
async def test_while_the_database_is_down_all_callers_get_the_old_value_and_one_of_them_tries(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)
    await cache.set("key", ["old"], ttl=50)
    terms: dict[str, Any] = {"early": 90, "on_error": "stale", "retry_after": LONG}
    maker = Maker(model, LookupError("the database is gone"), held=True)
    first = model.spawn(cache.get_or_set("key", maker.make, 100, **terms))
    await maker.begun()
    callers = [model.spawn(each.get_or_set("key", maker.make, 100, **terms)) for each in (cache, other) * 10]
    outcomes = [await model.join(caller) for caller in callers]
    maker.held = False
    outcomes.append(await model.join(first))
    outcomes += [await each.get_or_set("key", maker.make, 100, wait=0, **terms) for each in (cache, other)]
    assert outcomes == [["old"]] * 23
    assert maker.calls == 1
    assert len({id(outcome) for outcome in outcomes}) == 23, "each has its own"


@every_model
async def test_the_old_value_is_returned_though_it_cannot_be_stored_again(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server, timeout=3)
    await cache.set("key", "old", ttl=50)

    def make() -> Any:
        own_server.stop()
        raise LookupError("everything is down")

    assert await cache.get_or_set("key", make, 100, early=90, on_error="stale") == "old"
    with pytest.raises(pinyon.ConnectError):
        await connect(own_server).get("key")


@pytest.mark.parametrize("value", [b"", "", None, 0, False, [], {}])
@every_model
async def test_every_value_is_a_hit(model: Model, value: Any, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    assert await cache.get_or_set("key", lambda: value, 60) == value
    assert await cache.get_or_set("key", never, 60) == value
    lease = await cache.lease("key")
    assert (lease.state, lease.value, lease.has_value) == (Outcome.HIT, value, True)


@every_model
async def test_a_value_that_cannot_be_stored_is_an_error_and_the_lease_is_given_back(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server, max_value_size=1000)
    for value, error in [(object(), pinyon.UnsupportedType), (b"x" * 1001, pinyon.ValueTooLarge)]:
        with pytest.raises(error):
            await cache.get_or_set("key", lambda value=value: value, 60, lease=LONG)
        assert not server.holds("key")
    roomy = connect(server, max_value_size=4_000_000)
    with pytest.raises(pinyon.ValueTooLarge, match="too large"):
        await roomy.get_or_set("key", lambda: b"x" * 3_000_000, 60, lease=LONG)
    assert await cache.get_or_set("key", lambda: "value", 60, wait=0) == "value"


@pytest.mark.parametrize("meanwhile", ["set", "delete", "delete stale"])
@every_model
async def test_what_is_made_late_overwrites_nothing(
    model: Model, meanwhile: str, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)
    maker = Maker(model, "late", held=True)
    making = model.spawn(cache.get_or_set("key", maker.make, 60))
    await maker.begun()
    if meanwhile == "set":
        await other.set("key", "newer")
    else:
        assert await other.delete("key", **({"stale": 30} if meanwhile == "delete stale" else {}))
    maker.held = False
    assert await model.join(making) == "late"
    expected = "newer" if meanwhile == "set" else "made anew"
    assert await other.get_or_set("key", lambda: "made anew", 60, wait=0) == expected


@every_model
async def test_who_is_later_than_its_lease_overwrites_nothing(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)
    maker = Maker(model, "late", held=True)
    making = model.spawn(cache.get_or_set("key", maker.make, 60, lease=1))
    await maker.begun()
    assert await other.get_or_set("key", lambda: "newer", 60) == "newer"
    maker.held = False
    assert await model.join(making) == "late"
    assert await other.get("key") == "newer"


@every_model
async def test_a_stale_value_is_handed_out_while_one_caller_makes_another(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)
    await cache.get_or_set("key", lambda: "old", 60)
    assert await other.delete("key", stale=30)
    assert not await other.delete("absent", stale=30)
    maker = Maker(model, "new", held=True)
    making = model.spawn(cache.get_or_set("key", maker.make, 60))
    await maker.begun()
    for each in (cache, other):
        assert await each.get_or_set("key", never, 60, wait=0) == "old"
    lease = await other.lease("key")
    assert (lease.state, lease.value) == (Outcome.STALE, "old")
    maker.held = False
    assert await model.join(making) == "new"
    async with cache.quiet() as batch:
        await batch.delete("key", stale=30)
    assert (await other.lease("key")).state is Outcome.WON


@every_model
async def test_a_caller_that_is_killed_gives_back_and_another_makes(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)
    killed, maker = Maker(model, KilledError(), held=True), Maker(model, "value")
    making = model.spawn(cache.get_or_set("key", killed.make, 60, lease=LONG))
    await killed.begun()
    of_the_process = model.spawn(cache.get_or_set("key", maker.make, 60, wait=SOON))
    elsewhere = model.spawn(other.get_or_set("key", maker.make, 60, wait=SOON))
    await model.until(lambda: following(cache) == 1)
    killed.held = False
    with pytest.raises(KilledError):
        await model.join(making)
    assert [await model.join(task) for task in (of_the_process, elsewhere)] == ["value", "value"]
    assert maker.calls == 1


@cooperative
async def test_a_caller_that_is_cancelled_gives_back(model: Model, server: Memcached, connect: Connect) -> None:
    cache, other = connect(server), connect(server)
    maker = Maker(model, "never", held=True)
    making = model.spawn(cache.get_or_set("key", maker.make, 60, lease=LONG))
    await maker.begun()
    follower = model.spawn(cache.get_or_set("key", never, 60))
    await model.until(lambda: following(cache) == 1)
    for task in (follower, making):
        model.cancel(task)
        with pytest.raises(CancelledError):
            await model.join(task)
    assert await other.get_or_set("key", lambda: "value", 60, wait=SOON) == "value"


@every_model
async def test_make_cannot_wait_for_itself(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)

    async def make() -> Any:
        return await cache.get_or_set("key", never, 60)

    with pytest.raises(pinyon.UsageError, match=r"what makes the value of .* would wait for itself"):
        await cache.get_or_set("key", make if isinstance(model, Asyncio) else lambda: drive(make()), 60)
    assert await cache.get_or_set("key", lambda: "value", 60, wait=0) == "value"


@every_model
async def test_a_plain_make_will_do(model: Model, server: Memcached, connect: Connect) -> None:
    assert await connect(server).get_or_set("key", lambda: "value", 60) == "value"


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttl": None},
        {"ttl": 9, "early": 9},
        {"stale": -1},
        {"lease": 0},
        {"wait": float("nan")},
        {"make": "value"},
        {"key": "with space"},
        {"key": 5},
    ],
    ids=str,
)
@every_model
async def test_what_makes_no_sense_is_refused(model: Model, wrong: Any, server: Memcached, connect: Connect) -> None:
    settings = {"key": "key", "make": never, "ttl": 60, **wrong}
    with pytest.raises((pinyon.UsageError, pinyon.UnsupportedType)):
        await connect(server).get_or_set(settings.pop("key"), settings.pop("make"), settings.pop("ttl"), **settings)
    assert not server.holds("key")


@every_model
async def test_a_server_that_is_too_old_says_so(
    model: Model, server: Memcached, classic_server: OlderServer, connect: Connect
) -> None:
    cache = connect(classic_server)
    needs = r"needs memcached 1\.6\.10 or newer; the server reports 1\.4\.15"
    for begin in (
        lambda: cache.get_or_set("key", never, 60),
        lambda: cache.lease("key"),
        lambda: cache.delete("key", stale=9),
    ):
        with pytest.raises(pinyon.Unsupported, match=needs):
            await begin()
    with pytest.raises(pinyon.Unsupported, match=needs):
        await cache.using(on_failure="miss").get_or_set("key", never, 60)


@every_model
async def test_a_server_that_echoes_nothing_on_a_miss(
    model: Model, server: Memcached, older_meta_server: OlderServer, connect: Connect
) -> None:
    cache = connect(older_meta_server)
    assert await cache.get_or_set("key", lambda: "value", 60) == "value"
    assert await cache.get_or_set("key", never, 60) == "value"


@every_model
async def test_keys_are_rewritten_as_everywhere(model: Model, server: Memcached, connect: Connect) -> None:
    named = connect(server, namespace="app:")
    encoding = connect(server, encode_keys=True)
    assert await named.get_or_set("key", lambda: "value", 60) == "value"
    assert server.holds("app:key")
    long = "a key with spaces and " + "much else " * 30
    assert await encoding.get_or_set(long, lambda: "value", 60) == "value"
    assert await encoding.get(long) == "value"
    with pytest.raises(LookupError):
        await encoding.get_or_set("an other", Maker(model, LookupError()).make, 60, lease=LONG)
    assert await encoding.get_or_set(b"an other", lambda: "value", 60, wait=0) == "value"
    assert await encoding.delete("an other", stale=9)


@pytest.mark.parametrize("size", [20_000, 5_000_000])
@every_model
async def test_large_values(model: Model, size: int, roomy: Memcached, connect: Connect) -> None:
    roomy.flush()
    cache, other = (connect(roomy, max_value_size=16 * 1024 * 1024) for _ in range(2))
    old, new = b"old" * size, b"new" * size
    assert await cache.get_or_set("key", lambda: old, 60) == old
    assert await other.delete("key", stale=30)
    maker = Maker(model, new, held=True)
    making = model.spawn(cache.get_or_set("key", maker.make, 60))
    await maker.begun()
    assert await other.get_or_set("key", never, 60) == old
    maker.held = False
    assert await model.join(making) == new
    assert await other.get_or_set("key", never, 60) == new


WON = Step("VA 0 f0 c7 O{opaque} W\r\n\r\n", match="^mg key .*N10")


@pytest.mark.parametrize(
    ("steps", "makes"),
    [([STALL], 0), ([Step(then="close")] * 9, 0), ([WON, STALL], 1), ([WON, Step(then="close")], 1)],
    ids=["silent", "broken", "silent when it is to store", "broken when it is to store"],
)
@every_model
async def test_a_server_that_fails(model: Model, steps: Any, makes: int, faulty: Faults, connect: Connect) -> None:
    for on_failure in ("raise", "miss"):
        server = faulty(*steps)
        timeout = 1.5 if STALL in steps else 30
        cache = connect(server, timeout=timeout, on_failure=on_failure, failover=False)
        maker = Maker(model, "value")
        if on_failure == "miss":
            assert await cache.get_or_set("key", maker.make, 60) == "value"
            assert maker.calls == 1
        else:
            with pytest.raises(pinyon.Error) as caught:
                await cache.get_or_set("key", maker.make, 60)
            assert isinstance(caught.value, (pinyon.Timeout, pinyon.ConnectionLost, pinyon.ServerDown))
            assert maker.calls == makes
        server.close()


@every_model
async def test_a_connection_that_was_lost_meanwhile_costs_nothing(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    """As with get."""
    cache = connect(own_server)
    assert await cache.get_or_set("key", lambda: "value", 60) == "value"
    own_server.restart()
    assert await cache.get_or_set("key", lambda: "another", 60) == "another"


def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have(server: Memcached) -> None:
    let_go = threading.Event()
    making = threading.Event()

    def make() -> str:
        making.set()
        let_go.wait(SOON)
        return "parent's"

    with pinyon.Client(server.address, timeout=10, connect_timeout=10) as cache:
        thread = threading.Thread(target=cache.get_or_set, args=("key", make, 60))
        thread.start()
        making.wait(SOON)
        server.flush()
        child = os.fork()
        if child == 0:
            made = False
            with contextlib.suppress(BaseException):
                made = cache.get_or_set("key", lambda: "child's", 60, wait=60) == "child's"
            os._exit(0 if made else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        let_go.set()
        thread.join()
        assert cache.get("key") == "child's"
        assert cache._flights == []
