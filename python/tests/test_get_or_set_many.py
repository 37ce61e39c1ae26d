"""get_or_set_many: missing values are made together, each by one caller, and each key fails by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from links import CountingLink
from making import LONG, KilledError, following
from models import Asyncio, Model, drive, every_model
from servers import Memcached

import pinyon
from pinyon import Made

Connect = Callable[..., Any]


class Makers:
    """A ``make_many`` that waits until the test lets it continue, and knows with which keys it was called."""

    def __init__(self, model: Model, outcome: Callable[[list[Any]], Any], *, held: bool = False) -> None:
        self.model, self.outcome, self.held = model, outcome, held
        self.calls: list[list[Any]] = []

    @property
    def make(self) -> Callable[[list[Any]], Any]:
        return self._make if isinstance(self.model, Asyncio) else lambda keys: drive(self._make(keys))

    async def _make(self, keys: list[Any]) -> Any:
        self.calls.append(keys)
        await self.model.until(lambda: not self.held)
        return self.outcome(keys)

    async def begun(self) -> None:
        await self.model.until(lambda: bool(self.calls))


def named(keys: list[Any]) -> dict[Any, str]:
    return {key: f"value of {key}" for key in keys}


def never(keys: list[Any]) -> Any:
    raise AssertionError(f"there was something to take for {keys}")


def failing(keys: list[Any]) -> Any:
    raise LookupError("no database")


@every_model
async def test_what_is_missing_is_made_in_one_call_and_stored(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    await cache.set("b", None)
    before = own_server.statistic("cmd_set")
    maker = Makers(model, named)
    keys = ["a", "b", b"c", "a"]
    assert await cache.get_or_set_many(keys, maker.make, 60) == {
        "a": "value of a",
        "b": None,
        b"c": "value of b'c'",
    }
    assert maker.calls == [["a", b"c"]], "as they were given, in their order"
    assert own_server.statistic("cmd_set") - before == 2
    assert (await cache.get_or_set_many(iter(keys), never, 60))["a"] == "value of a"
    assert await cache.get_or_set_many([], never, 60) == {}


@every_model
async def test_each_key_costs_one_question_and_what_is_made_one_store(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    keys = [f"key:{number}" for number in range(50)]
    await cache.get_or_set_many(keys, Makers(model, named).make, 60)
    assert [own_server.statistic(name) for name in ("cmd_get", "cmd_set")] == [50, 50]
    await cache.get_or_set_many(keys, never, 60)
    assert [own_server.statistic(name) for name in ("cmd_get", "cmd_set")] == [100, 50]


@every_model
async def test_a_call_costs_as_many_round_trips_as_the_page_says(
    model: Model, server: Memcached, connect: Connect
) -> None:
    with CountingLink(server) as link:
        cache = connect(link)
        keys = [f"key:{number}" for number in range(10)]
        await cache.get("warm")
        link.take()
        left_out = Makers(model, lambda keys: named(keys[:7]))
        for makers, cost in [
            (left_out, (3, {"mg": 10, "cas": 7, "md": 3})),
            (Makers(model, named), (2, {"mg": 10, "cas": 3})),
            (Makers(model, never), (1, {"mg": 10})),
        ]:
            await cache.get_or_set_many(keys, makers.make, 60)
            assert link.take() == cost
        await cache.delete_many(keys)
        link.take()
        with pytest.raises(LookupError):
            await cache.get_or_set_many(keys, Makers(model, failing).make, 60)
        assert link.take() == (2, {"mg": 10, "md": 10})


@every_model
async def test_pairs_and_values_with_their_own_ttls(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    made = Makers(
        model, lambda keys: [("a", Made("A", ttl=500)), ("b", Made("B", store=False)), ("z", "not asked for")]
    )
    assert await cache.get_or_set_many(["a", "b"], made.make, 60) == {"a": "A", "b": "B"}
    assert (await cache.meta("a")).ttl > 400
    assert await cache.get_many(["b", "z"]) == {}
    assert await cache.get_or_set_many(["b"], Makers(model, named).make, lambda value: len(value)) == {
        "b": "value of b"
    }
    assert (await cache.meta("b")).ttl <= 10


@every_model
async def test_a_key_that_is_left_out_is_missing_and_another_caller_makes_it(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    assert await cache.get_or_set_many(["a", "b"], Makers(model, lambda _: {"a": 1}).make, 60, lease=LONG) == {"a": 1}
    assert await cache.get_or_set_many(["a", "b"], Makers(model, named).make, 60, wait=0) == {"a": 1, "b": "value of b"}


@every_model
async def test_if_the_maker_fails_all_leases_are_given_back(model: Model, server: Memcached, connect: Connect) -> None:
    cache, other = connect(server), connect(server)
    with pytest.raises(LookupError, match="no database"):
        await cache.get_or_set_many(["a", "b"], Makers(model, failing).make, 60, lease=LONG, failed={})
    maker = Makers(model, named)
    assert await other.get_or_set_many(["a", "b"], maker.make, 60, wait=0) == named(["a", "b"])


@every_model
async def test_old_values_stay_if_the_maker_fails_and_the_terms_say_so(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    await cache.set_many({"a": "old", "b": "old"}, ttl=50)
    terms: dict[str, Any] = {"stale": 100, "on_error": "stale"}
    maker = Makers(model, failing)
    assert await cache.get_or_set_many(["a", "b"], maker.make, 60, **terms) == {"a": "old", "b": "old"}
    assert len(maker.calls) == 1
    with pytest.raises(LookupError):
        await cache.get_or_set_many(["a", "c"], maker.make, 60, **terms)


@every_model
async def test_those_of_one_process_wait_for_each_other_key_by_key(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server)
    first, second = Makers(model, named, held=True), Makers(model, named, held=True)
    tasks = [model.spawn(cache.get_or_set_many(["a", "b", "c"], first.make, 60))]
    await first.begun()
    tasks.append(model.spawn(cache.get_or_set_many(["d", "c", "b"], second.make, 60)))
    await second.begun()
    assert following(cache) == 2
    first.held = second.held = False
    assert [await model.join(task) for task in tasks] == [named(["a", "b", "c"]), named(["d", "c", "b"])]
    assert [first.calls, second.calls] == [[["a", "b", "c"]], [["d"]]]
    assert own_server.statistic("cmd_get") == 4
    assert getattr(cache, "wrapped", cache)._flights == []


@every_model
async def test_those_of_several_processes_make_each_value_once(
    model: Model, server: Memcached, connect: Connect
) -> None:
    caches = [connect(server) for _ in range(3)]
    makers = [Makers(model, named) for _ in caches]
    keys = [["a", "b", "c", "d"], ["d", "c", "b", "e"], ["e", "a", "f", "b"]]
    calls = [cache.get_or_set_many(wanted, maker.make, 60) for cache, maker, wanted in zip(caches, makers, keys)]
    tasks = [model.spawn(call) for call in calls]
    assert [await model.join(task) for task in tasks] == [named(wanted) for wanted in keys]
    made = sorted(key for maker in makers for call in maker.calls for key in call)
    assert made == ["a", "b", "c", "d", "e", "f"]


@every_model
async def test_what_others_make_for_too_long_is_named(model: Model, server: Memcached, connect: Connect) -> None:
    cache, other = connect(server), connect(server)
    held = await other._ask_lease("b", LONG) if isinstance(model, Asyncio) else None
    if held is None:
        held = await other.lease("b", lease=LONG)
    failed: dict[Any, Exception] = {}
    maker = Makers(model, named)
    assert await cache.get_or_set_many(["a", "b"], maker.make, 60, wait=0.01, failed=failed) == named(["a"])
    assert isinstance(failed.pop("b"), pinyon.LeaseTimeout)
    assert not failed
    with pytest.raises(pinyon.LeaseTimeout, match="'b' is still being made") as raised:
        await cache.get_or_set_many(["a", "b"], never, 60, wait=0)
    assert raised.value.partial == named(["a"])


@every_model
async def test_a_server_that_is_down_fails_its_own_keys(
    model: Model, own_server: Memcached, server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server, server, failover=False)
    keys = [f"key:{number}" for number in range(20)]
    there = await cache.get_or_set_many(keys, Makers(model, named).make, 60)
    assert there == named(keys)
    own_server.stop()
    failed: dict[Any, Exception] = {}
    maker = Makers(model, named)
    found = await cache.get_or_set_many(keys, maker.make, 60, failed=failed)
    assert found
    assert sorted([*found, *failed]) == sorted(keys)
    assert not maker.calls
    assert all(isinstance(error, pinyon.Error) for error in failed.values())
    forgiving = cache.using(on_failure="miss")
    assert await forgiving.get_or_set_many(keys, maker.make, 60) == named(keys)
    assert sorted(maker.calls[0]) == sorted(failed), "they are made, and stored nowhere"


@every_model
async def test_a_caller_that_is_killed_gives_back_what_it_won(
    model: Model, server: Memcached, connect: Connect
) -> None:
    def killed(keys: list[Any]) -> Any:
        raise KilledError

    cache, other = connect(server), connect(server)
    with pytest.raises(KilledError):
        await cache.get_or_set_many(["a", "b"], Makers(model, killed).make, 60, lease=LONG)
    assert await other.get_or_set_many(["a", "b"], Makers(model, named).make, 60) == named(["a", "b"])


@every_model
async def test_what_cannot_be_made_of_is_refused(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    for keys, make, why in [
        (["a"], {}, "make_many is called with keys"),
        (["a"], lambda keys: 5, "make_many must return a dict"),
        ("key", never, "keys must be a list"),
    ]:
        with pytest.raises(pinyon.UnsupportedType, match=why):
            await cache.get_or_set_many(keys, make, 60)
    with pytest.raises(pinyon.InvalidKey, match=r"keys\[1\]"):
        await cache.get_or_set_many(["a", ""], never, 60)
