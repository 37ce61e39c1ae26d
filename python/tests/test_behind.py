"""Values that are made behind their callers: ``soft_timeout`` and ``refresh="behind"``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from making import Maker, never
from models import BLOCKING, Asyncio, Gevent, Model, cooperative, every_model, on_asyncio, run_by
from servers import Memcached
from test_fork import in_child

import pinyon
import pinyon.aio
from pinyon._waits import Threads

Connect = Callable[..., Any]

#: For what depends on an executor.
in_threads = run_by([BLOCKING])

TERMS: dict[str, Any] = {"stale": 30}


@pytest.fixture
def connect(connect: Connect) -> Connect:
    return partial(connect, timeout=20, connect_timeout=20)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as executor:
        yield executor


def behind(model: Model, executor: Any, **terms: Any) -> dict[str, Any]:
    """The settings of a call whose maker goes on behind it."""
    refresh = {} if "soft_timeout" in terms else {"refresh": "behind"}
    return {**TERMS, **refresh, **terms, **({"executor": executor} if model is BLOCKING else {})}


async def stale(cache: Any, value: Any = "old") -> None:
    """Leaves a stale value to a winner."""
    await cache.set("key", value, ttl=60)
    await cache.delete("key", stale=30)


def makers(cache: Any) -> int:
    """How many makers a client keeps."""
    return len(getattr(cache, "wrapped", cache)._behind)


async def made_again(model: Model, cache: Any) -> None:
    """Returns once another caller has made the value: the lease was given back."""

    async def is_made() -> bool:
        return bool(await cache.get_or_set("key", lambda: "again", 60, stale=30) == "again")

    await model.until(is_made)


@every_model
@pytest.mark.parametrize("terms", [{"soft_timeout": 0.05}, {"soft_timeout": 0}, {}])
async def test_a_caller_has_the_old_value_while_the_new_one_is_made(
    model: Model, terms: dict[str, Any], server: Memcached, connect: Connect, executor: ThreadPoolExecutor
) -> None:
    cache, other = connect(server), connect(server)
    await stale(cache, {"a": ["list"]})
    maker = Maker(model, {"a": ["new"]}, held=True)
    settings = behind(model, executor, **terms)
    assert await cache.get_or_set("key", maker.make, 60, **settings) == {"a": ["list"]}
    await maker.begun()
    for each in (cache, other, cache):
        assert await each.get_or_set("key", never, 60, **settings) == {"a": ["list"]}
    assert makers(cache) == 1
    maker.held = False
    await model.until(lambda: makers(cache) == 0)
    assert await other.get("key") == {"a": ["new"]}
    assert maker.calls == 1


@every_model
async def test_a_quick_maker_is_waited_for(
    model: Model, server: Memcached, connect: Connect, executor: ThreadPoolExecutor
) -> None:
    cache = connect(server)
    await stale(cache)
    settings = behind(model, executor, soft_timeout=1000)
    assert await cache.get_or_set("key", Maker(model, "new").make, 60, **settings) == "new"
    await stale(cache)
    with pytest.raises(ZeroDivisionError):
        await cache.get_or_set("key", Maker(model, ZeroDivisionError()).make, 60, **settings)
    await model.until(lambda: makers(cache) == 0)
    assert await cache.get_or_set("key", lambda: "again", 60, stale=30) == "again"


@every_model
async def test_without_an_old_value_the_caller_waits(
    model: Model, server: Memcached, connect: Connect, executor: ThreadPoolExecutor
) -> None:
    cache = connect(server)
    assert await cache.get_or_set("key", Maker(model, "new").make, 60, **behind(model, executor)) == "new"
    assert makers(cache) == 0


@every_model
async def test_those_who_wait_in_the_process_have_the_old_value_too(
    model: Model, server: Memcached, connect: Connect, executor: ThreadPoolExecutor
) -> None:
    cache = connect(server)
    await stale(cache)
    maker = Maker(model, "new", held=True)
    settings = behind(model, executor)
    tasks = [model.spawn(cache.get_or_set("key", maker.make, 60, **settings)) for _ in range(20)]
    assert [await model.join(task) for task in tasks] == ["old"] * 20
    maker.held = False
    await model.until(lambda: makers(cache) == 0)
    assert (await cache.get("key"), maker.calls) == ("new", 1)


@every_model
async def test_what_cannot_be_stored_behind_is_told(
    model: Model, server: Memcached, connect: Connect, executor: ThreadPoolExecutor
) -> None:
    told: list[pinyon.Event] = []
    cache = connect(server, on_event=told.append)
    await stale(cache)
    assert await cache.get_or_set("key", Maker(model, object()).make, 60, **behind(model, executor)) == "old"
    await model.until(lambda: told)
    assert [event.kind for event in told] == ["stale"]
    assert "object" in told[0].line
    await made_again(model, cache)
    assert makers(cache) == 0


@every_model
async def test_a_client_that_is_closed_ends_its_makers_and_gives_their_leases_back(
    model: Model, server: Memcached, connect: Connect, executor: ThreadPoolExecutor
) -> None:
    cache, other = connect(server), connect(server)
    await stale(cache)
    maker = Maker(model, "new", held=True)
    assert await cache.get_or_set("key", maker.make, 60, **behind(model, executor)) == "old"
    await maker.begun()
    cache.using(on_failure="miss").close()
    await made_again(model, other)
    maker.held = False
    await model.until(lambda: makers(cache) == 0)
    assert await other.get("key") == "again"


@cooperative
async def test_a_caller_that_is_cancelled_while_it_waits_takes_its_maker_along(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)
    await stale(cache)
    maker, begun = Maker(model, "new", held=True), threading.Event()

    async def make() -> Any:
        begun.set()
        return await maker._make()

    made = make if isinstance(model, Asyncio) else lambda: begun.set() or maker.make()
    await model.abandon(cache.get_or_set("key", made, 60, **behind(model, None, soft_timeout=1000)), begun)
    await model.until(lambda: makers(cache) == 0)
    await made_again(model, other)


class StoppedError(BaseException):
    """What a handler of signals raises."""


@in_threads
async def test_a_caller_that_is_interrupted_while_it_waits_wants_nothing_of_its_maker(
    model: Model,
    server: Memcached,
    connect: Connect,
    executor: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache, other = connect(server), connect(server)
    await stale(cache)
    maker = Maker(model, "new", held=True)

    def wait(_: object, seconds: float) -> None:
        model.run(maker.begun())
        raise StoppedError

    monkeypatch.setattr(Threads, "wait", wait)
    with pytest.raises(StoppedError):
        await cache.get_or_set("key", maker.make, 60, **behind(model, executor, soft_timeout=1000))
    await made_again(model, other)
    maker.held = False
    await model.until(lambda: makers(cache) == 0)
    assert await other.get("key") == "again"


@cooperative
async def test_a_maker_that_is_killed_behind_gives_its_lease_back(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    await stale(cache)
    maker = Maker(model, "new", held=True)
    assert await cache.get_or_set("key", maker.make, 60, **behind(model, None)) == "old"
    await maker.begun()
    (kept,) = getattr(cache, "wrapped", cache)._behind
    kept.stop()
    await model.until(lambda: makers(cache) == 0)
    await made_again(model, cache)


@on_asyncio
async def test_one_that_is_cancelled_before_it_begins_does_so_too(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    await stale(cache)
    assert await cache.get_or_set("key", never, 60, **behind(model, None)) == "old"
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await model.until(lambda: makers(cache) == 0)
    await made_again(model, cache)


@in_threads
async def test_the_end_of_a_loop_gives_leases_back(model: Model, server: Memcached, connect: Connect) -> None:
    cache = pinyon.aio.Client(server.address, timeout=20)
    other = connect(server)

    async def leave() -> Any:
        await stale(cache)
        return await cache.get_or_set("key", lambda: asyncio.sleep(1000), 60, stale=30, refresh="behind")

    assert asyncio.run(leave()) == "old"
    await made_again(model, other)


@every_model
async def test_settings_are_refused_where_nothing_goes_on_behind(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    for name, terms in (("soft_timeout", {"soft_timeout": 1}), ('refresh "behind"', {"refresh": "behind"})):
        if model is BLOCKING:
            with pytest.raises(pinyon.UsageError, match=f"{name} cannot be used here: .* give executor"):
                await cache.get_or_set("key", never, 60, stale=30, **terms)
        with pytest.raises(pinyon.UsageError, match=f"{name} cannot be used here: this call waits for what it makes"):
            await cache.get_or_set_many(["key"], never, 60, stale=30, **terms)
    assert own_server.statistic("cmd_get") == 0


@in_threads
async def test_an_executor_that_takes_nothing_leaves_the_lease_to_others(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    await stale(cache)
    executor = ThreadPoolExecutor()
    executor.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        await cache.get_or_set("key", never, 60, **behind(model, executor))
    await made_again(model, cache)


@in_threads
async def test_an_executor_that_cannot_call_the_maker_fails_as_a_maker(
    model: Model, server: Memcached, connect: Connect
) -> None:
    told: list[pinyon.Event] = []
    cache = connect(server, on_event=told.append)
    await stale(cache)
    with ProcessPoolExecutor(1) as executor:
        assert await cache.get_or_set("key", never, 60, **behind(model, executor)) == "old"
    # "Can't pickle local object", and in Python 3.13 "Can't get local object".
    assert "local object" in told[0].line
    await made_again(model, cache)


class Forgetting(ThreadPoolExecutor):
    """Keeps calls, and never carries them out."""

    future: Future[Any] | None = None

    def submit(self, *_: Any) -> Any:
        self.future = Future()
        return self.future


@in_threads
@pytest.mark.parametrize("terms", [{}, {"soft_timeout": 1000}])
async def test_an_executor_that_forgets_its_calls_leaves_the_lease_to_others(
    model: Model, terms: dict[str, Any], server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    await stale(cache)
    with Forgetting() as executor:
        caller = model.spawn(cache.get_or_set("key", never, 60, **behind(model, executor, **terms)))
        await model.until(lambda: makers(cache) == 1 and executor.future)
        executor.future.cancel()
        executor.future.set_running_or_notify_cancel()
    if terms:
        with pytest.raises(CancelledError):
            await model.join(caller)
    else:
        assert await model.join(caller) == "old"
    await made_again(model, cache)
    assert makers(cache) == 0


@every_model
async def test_cached_functions_are_refreshed_behind(
    model: Model, server: Memcached, connect: Connect, executor: ThreadPoolExecutor
) -> None:
    client = connect(server)
    client = getattr(client, "wrapped", client)
    values = iter(["old", "new", "newest"])

    async def awaited_value() -> str:
        return next(values)

    function = awaited_value if isinstance(model, Asyncio) else lambda: next(values)
    cached = client.cached("key", 60, **behind(model, executor))(function)

    async def result(call: Any) -> Any:
        return await call if isinstance(model, Asyncio) else call

    assert await result(cached()) == "old"
    await result(client.delete("key", stale=30))
    assert await result(cached()) == "old"

    async def is_new() -> bool:
        return bool(await result(cached.peek()) == "new")

    await model.until(is_new)
    assert await result(cached.refresh()) == "newest"
    assert await result(cached.peek()) == "newest", "refresh has stored it when it returns"


@in_threads
async def test_a_child_leaves_the_lease_to_its_parent(model: Model, server: Memcached, connect: Connect) -> None:
    cache, go_on = connect(server), threading.Event()
    await stale(cache)

    def make() -> str:
        go_on.wait(60)
        return "new"

    with ThreadPoolExecutor() as executor:
        assert await cache.get_or_set("key", make, 60, **behind(model, executor)) == "old"
        assert in_child(lambda: (cache.close(), "closed")[1]) == "closed"
        go_on.set()
    assert await cache.get("key") == "new"


def test_a_greenlet_needs_no_executor(server: Memcached) -> None:
    model = Gevent()
    with ThreadPoolExecutor() as executor:
        cache = model.client(server.address, timeout=20)

        async def scenario() -> None:
            await stale(cache)
            assert (
                await cache.get_or_set("key", lambda: "new", 60, stale=30, refresh="behind", executor=executor) == "old"
            )
            await model.until(lambda: makers(cache) == 0)
            assert await cache.get("key") == "new"

        model.run(scenario())
