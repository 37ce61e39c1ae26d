"""Moving from one pool to another while both are in use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faulty import OlderServer
from making import awaited
from models import Awaited, Model, every_model, on_asyncio, shuffled
from servers import Memcached, free_port

import pinyon
import pinyon.aio

Connect = Callable[..., Any]

#: The differences between the clients of the old pool and of the new one, besides their servers.
OLD: dict[str, Any] = {
    "ring": "python-memcached",
    "dialect": "pymemcache",
    "serializer": "pickle",
    "timeout": 10,
    "connect_timeout": 10,
}
NEW: dict[str, Any] = {"timeout": 10, "connect_timeout": 10}


class Pools:
    """Two servers of each pool, their clients, and the migrating client."""

    def __init__(self, connect: Connect, servers: list[Memcached], **settings: Any) -> None:
        self.old = connect(*servers[:2], **OLD)
        self.new = connect(*servers[2:], **NEW)
        self.both = migrating(self.old, self.new, **settings)

    async def values(self, key: str = "key") -> tuple[Any, Any]:
        """The values in the old pool and in the new one."""
        return await self.old.get(key), await self.new.get(key)


def migrating(old: Any, new: Any, **settings: Any) -> Any:
    if isinstance(old, Awaited):
        return AwaitedMigration(pinyon.migrating(old.wrapped, new.wrapped, **settings))
    return pinyon.aio.migrating(old, new, **settings)


class AwaitedMigration(Awaited):
    @property
    def progress(self) -> pinyon.Progress:
        return self.wrapped.progress


async def cas(both: Any) -> Any:
    _, token = await both.gets("key")
    return await both.cas("key", 8, token)


async def tokens_of(both: Any, keys: list[str]) -> list[str]:
    found = await both.gets_many(keys)
    assert all(token > 0 for _, token in found.values())
    return list(found)


async def leased(both: Any) -> Any:
    return (await both.lease("key")).value


async def refreshed(both: Any, **terms: Any) -> Any:
    async def make() -> int:
        return 8

    client = getattr(both, "wrapped", both)
    cached = client.cached("key", 60, **terms)(make if client is both else lambda: 8)
    return await awaited(cached.refresh())


GONE = None

#: An operation if only the old pool has 7, or if neither has a value: its result, and the pools afterwards.
OPERATIONS: dict[str, tuple[Callable[[Any], Any], tuple[Any, Any, Any], tuple[Any, Any, Any]]] = {
    "get": (lambda both: both.get("key"), (7, 7, 7), (None, GONE, GONE)),
    "get with default": (lambda both: both.get("key", 0), (7, 7, 7), (0, GONE, GONE)),
    "get_many": (lambda both: both.get_many(["key", "other"]), ({"key": 7}, 7, 7), ({}, GONE, GONE)),
    "gets_many": (lambda both: tokens_of(both, ["key", "other"]), (["key"], 7, 7), ([], GONE, GONE)),
    "get_with_ttl": (lambda both: both.get_with_ttl("key"), ((7, None), 7, 7), (None, GONE, GONE)),
    "gat": (lambda both: both.gat("key", 100), (7, 7, 7), (None, GONE, GONE)),
    "touch": (lambda both: both.touch("key", 100), (True, 7, 7), (False, GONE, GONE)),
    "lease": (lambda both: leased(both), (7, 7, 7), (None, GONE, GONE)),
    "set": (lambda both: both.set("key", 8), (True, GONE, 8), (True, GONE, 8)),
    "refresh": (lambda both: refreshed(both), (8, GONE, 8), (8, GONE, 8)),
    "refresh with tags": (lambda both: refreshed(both, tags=["t"]), (8, GONE, 8), (8, GONE, 8)),
    "set_many": (lambda both: both.set_many({"key": 8}), ([], GONE, 8), ([], GONE, 8)),
    "add": (lambda both: both.add("key", 8), (False, 7, 7), (True, GONE, 8)),
    "replace": (lambda both: both.replace("key", 8), (True, GONE, 8), (False, GONE, GONE)),
    "append": (lambda both: both.append("key", "1"), (True, GONE, 71), (False, GONE, GONE)),
    "prepend": (lambda both: both.prepend("key", "1"), (True, GONE, 17), (False, GONE, GONE)),
    "incr": (lambda both: both.incr("key"), (8, GONE, 8), (None, GONE, GONE)),
    "incr with initial": (lambda both: both.incr("key", initial=1), (8, GONE, 8), (1, GONE, 1)),
    "decr": (lambda both: both.decr("key"), (6, GONE, 6), (None, GONE, GONE)),
    "delete": (lambda both: both.delete("key"), (True, GONE, GONE), (False, GONE, GONE)),
    "delete_many": (lambda both: both.delete_many(["key", "other"]), (1, GONE, GONE), (0, GONE, GONE)),
    "gat_many": (lambda both: both.gat_many(["key", "other"], 100), ({"key": 7}, 7, 7), ({}, GONE, GONE)),
    "touch_many": (lambda both: both.touch_many(["key", "other"], 100), (["key"], 7, 7), ([], GONE, GONE)),
    "flush_all": (lambda both: both.flush_all(), (None, GONE, GONE), (None, GONE, GONE)),
}


@every_model
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("there", [True, False], ids=["in the old pool", "nowhere"])
async def test_an_operation_finds_the_value_wherever_it_is(
    model: Model, connect: Connect, four: list[Memcached], operation: str, there: bool
) -> None:
    pools = Pools(connect, four)
    if there:
        await pools.old.set("key", 7)
    do, found, missing = OPERATIONS[operation]
    outcome, old, new = found if there else missing
    assert await do(pools.both) == outcome
    assert await pools.values() == (old, new)


@every_model
async def test_tokens_are_of_the_new_pool(model: Model, connect: Connect, four: list[Memcached]) -> None:
    pools = Pools(connect, four)
    await pools.old.set("key", 7)
    assert await cas(pools.both) is True
    assert await pools.values() == (None, 8)
    assert (await pools.both.meta("key")).size == 1


@every_model
async def test_what_the_new_pool_has_is_what_counts(model: Model, connect: Connect, four: list[Memcached]) -> None:
    pools = Pools(connect, four)
    await pools.old.set("key", "old")
    await pools.new.set("key", "new")
    assert await pools.both.get("key") == "new"
    assert await pools.both.get_many(["key"]) == {"key": "new"}
    assert await pools.both.add("key", "other") is False
    assert pools.both.progress == pinyon.Progress(new=3, old=0, moved=0, refused=0, missing=0)


@every_model
async def test_what_is_moved_keeps_its_ttl(model: Model, connect: Connect, four: list[Memcached]) -> None:
    pools = Pools(connect, four)
    await pools.old.set("hour", {"a": 1}, ttl=3600)
    await pools.old.set("ever", {"a": 1})
    await pools.both.get_many(["hour", "ever"])
    _, ttl = await pools.new.get_with_ttl("hour")
    assert 3500 < ttl <= 3600
    assert await pools.new.get_with_ttl("ever") == ({"a": 1}, None)
    assert pools.both.progress == pinyon.Progress(new=0, old=2, moved=2, refused=0, missing=0)


@every_model
async def test_many_keys_are_moved_by_and_by(model: Model, connect: Connect, four: list[Memcached]) -> None:
    pools = Pools(connect, four)
    values = {f"key{number}": number for number in range(100)}
    await pools.old.set_many(values)
    for round_number in itertools.count(1):
        assert await pools.both.get_many(values) == values
        if await pools.new.get_many(values) == values:
            break
        assert round_number < 10
    assert pools.both.progress.moved == 100


@every_model
async def test_any_number_of_values_is_read_in_the_order_of_the_keys(
    model: Model, connect: Connect, four: list[Memcached]
) -> None:
    pools = Pools(connect, four)
    values = [(f"key:{number}", number) for number in range(50)]
    await pools.old.set_many(dict(values[::2]))
    await pools.new.set_many(dict(values[1::2]))
    pairs = getattr(pools.both, "wrapped", pools.both).iter_many((key for key, _ in values), chunk=20)
    assert (list(pairs) if isinstance(pairs, Iterator) else [pair async for pair in pairs]) == values


@every_model
async def test_no_value_of_many_is_made_that_the_old_pool_has(
    model: Model, connect: Connect, four: list[Memcached]
) -> None:
    pools = Pools(connect, four)
    there = {f"key:{number}": number for number in range(40)}
    await pools.old.set_many(there, ttl=100)
    asked = []

    def make(keys: list[str]) -> dict[str, str]:
        asked.append(keys)
        return dict.fromkeys(keys, "made")

    found = await pools.both.get_or_set_many([*there, "other"], make, 60)
    assert (found, asked) == ({**there, "other": "made"}, [["other"]])
    assert await pools.new.get_many(list(there)) == there


@every_model
async def test_a_value_that_cannot_be_moved_is_read_all_the_same(
    model: Model, connect: Connect, four: list[Memcached]
) -> None:
    pools = Pools(connect, four)
    await pools.old.set("key", {1, 2})
    assert [await pools.both.get("key") for _ in range(2)] == [{1, 2}, {1, 2}]
    assert pools.both.progress == pinyon.Progress(new=0, old=2, moved=0, refused=2, missing=0)
    assert await pools.new.add("key", "free") is True


@every_model
async def test_those_who_ask_for_failures_read_what_cannot_be_moved(
    model: Model, connect: Connect, four: list[Memcached]
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    old, new = connect(four[0], **OLD), connect(nobody, **NEW)
    both = migrating(old, new)
    await old.set("key", 7)
    failed: dict[str, Any] = {}
    assert await both.get_many(["key", "key", "other"], failed=failed) == {"key": 7}
    assert list(failed) == [nobody]
    assert await both.gets_many(["key"], failed={}) == {}
    for many in (both.get_many, both.gets_many):
        with pytest.raises(pinyon.Error) as raised:
            await many(["key"])
        assert raised.value.server == nobody


@on_asyncio
async def test_what_is_deleted_while_it_is_moved_does_not_come_back(
    model: Model, connect: Connect, four: list[Memcached]
) -> None:
    """Whatever happens between reading the old pool and storing in the new one."""
    pools = Pools(connect, four)
    changes: list[tuple[Callable[[], Any], Any]] = [
        (lambda: pools.both.delete("key"), None),
        (lambda: pools.both.set("key", "later"), "later"),
    ]
    for (change, expected), calls in itertools.product(changes, range(1, 6)):
        await pools.old.set("key", "value")
        assert await interrupted(pools, calls, change) in ("value", expected)
        assert await pools.values() == (None, expected), calls
        await pools.both.delete("key")


async def interrupted(pools: Pools, calls: int, change: Callable[[], Any]) -> Any:
    """The value that is read while another caller changes the key, after so many requests of the reader."""

    async def cross(call: Any) -> Any:
        for number in itertools.count(1):
            if (reply := call.go_on()) is None:
                return call.result()
            await reply
            if number == calls:
                await change()

    class Interrupted(pinyon.aio.MigratingClient):
        _cross = staticmethod(cross)

    return await Interrupted(pools.old, pools.new).get("key")


@every_model
async def test_one_that_died_while_moving_a_key_does_not_keep_it_from_others(
    model: Model, connect: Connect, four: list[Memcached]
) -> None:
    pools = Pools(connect, four)
    await pools.old.set("key", "value")
    assert (await pools.new._ask_lease("key", 1)).state == "won"
    assert await pools.both.get("key") == "value"
    assert await pools.new.get("key") is None
    for _ in range(500):
        await model.sleep(0.01)
        assert await pools.both.get("key") == "value"
        if await pools.new.get("key") == "value":
            return
    raise AssertionError("the lease of the dead never ended")


@every_model
async def test_a_live_migration_loses_nothing(model: Model, connect: Connect, four: list[Memcached]) -> None:
    """Readers and writers use keys of both pools. A key must have the value that was written last."""
    pools = Pools(connect, four)
    await pools.old.set_many({f"read{number}": [number] for number in range(200)})
    wrong: list[Any] = []

    async def read(seed: int) -> None:
        chance = shuffled(seed)
        for number in chance.sample(range(200), 100):
            value = await pools.both.get(f"read{number}")
            if value != [number]:
                wrong.append((number, value))

    async def write(writer: int) -> None:
        """Only this writer writes its keys, so it knows their values."""
        chance = shuffled(writer)
        written: dict[str, int | None] = {f"{writer}:{number}": number for number in range(20)}
        await pools.old.set_many(written)
        for step in range(150):
            key = chance.choice(list(written))
            change = chance.choice(["set", "incr", "delete", "nothing"])
            if change == "set":
                await pools.both.set(key, step)
                written[key] = step
            elif change == "incr":
                before, after = written[key], await pools.both.incr(key)
                if after != (None if before is None else before + 1):
                    wrong.append((key, before, after))
                written[key] = after
            elif change == "delete":
                await pools.both.delete(key)
                written[key] = None
            value = await pools.both.get(key)
            if value != written[key]:
                wrong.append((key, value, written[key]))

    outcomes = await model.gather([*(read(seed) for seed in range(8)), *(write(writer) for writer in range(8))])
    assert outcomes == [None] * 16
    assert not wrong
    assert pools.both.progress.refused == 0


@every_model
async def test_old_servers_that_cannot_tell_a_ttl_need_one(
    model: Model, connect: Connect, classic_server: OlderServer, four: list[Memcached]
) -> None:
    old, new = connect(classic_server, **OLD), connect(four[0], **NEW)
    await old.set("key", "value")
    with pytest.raises(pinyon.Unsupported, match="give the migrating client a ttl"):
        await migrating(old, new).get("key")
    assert await migrating(old, new, ttl=100).get("key") == "value"
    value, ttl = await new.get_with_ttl("key")
    assert value == "value"
    assert 90 < ttl <= 100


def test_clients_that_would_delete_each_others_keys_are_refused(server: Memcached) -> None:
    old, new = (
        pinyon.Client(server.address, timeout=20, connect_timeout=20),
        pinyon.Client(server.address, timeout=20, connect_timeout=20),
    )
    with pytest.raises(pinyon.UsageError, match="give the new client a namespace"):
        pinyon.migrating(old, new)
    with pytest.raises(pinyon.UsageError, match="are the same"):
        pinyon.migrating(old, old)
    apart = pinyon.migrating(old, pinyon.Client(server.address, namespace="2:", timeout=20, connect_timeout=20))
    old.set("key", "value")
    assert apart.get("key") == "value"
    assert apart.set("key", "other") is True
    assert old.get("key") is None


def test_both_clients_are_of_one_kind(server: Memcached) -> None:
    plain, awaited = (
        pinyon.Client(server.address, timeout=20, connect_timeout=20),
        pinyon.aio.Client(server.address, namespace="2:", timeout=20, connect_timeout=20),
    )
    with pytest.raises(pinyon.UsageError, match="whose methods wait by themselves"):
        pinyon.migrating(plain, awaited)
    with pytest.raises(pinyon.UsageError, match=r"two clients of pinyon\.aio"):
        pinyon.aio.migrating(plain, awaited)
    with pytest.raises(pinyon.UsageError, match="no quiet batches"):
        pinyon.migrating(plain, pinyon.Client(server.address, namespace="2:", timeout=20, connect_timeout=20)).quiet()
