"""The whole API in every concurrency model, and what many simultaneous coroutines get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from models import BLOCKING, Model, cooperative, every_model, shuffled
from servers import Memcached

import pinyon

Connect = Callable[..., Any]


async def outcome(method: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """The result, or the kind of error that it raises."""
    try:
        return await method(*arguments, **settings)
    except pinyon.Error as error:
        return type(error)


async def whole_api(cache: Any) -> list[Any]:
    """The result of every method."""
    given: list[Any] = []

    async def note(method: Callable[..., Any], *arguments: Any, **settings: Any) -> None:
        given.append(await outcome(method, *arguments, **settings))

    for key in ("text", b"bytes", "ключ"):
        await note(cache.get, key)
        await note(cache.get, key, "default")
        await note(cache.set, key, {"n": [1, 2.5, None, True, "t", b"b"]})
        await note(cache.get, key)
        await note(cache.add, key, 1)
        await note(cache.replace, key, "replaced", 100)
        await note(cache.append, key, "!")
        await note(cache.prepend, key, "?")
        await note(cache.gat, key, 50)
        await note(cache.touch, key, 60)
        meta = await cache.meta(key)
        given.append((meta.size, meta.fetched, 0 < meta.ttl <= 60))
        value, unique = await cache.gets(key)
        given.append((value, await cache.cas(key, "swapped", unique), await cache.cas(key, "late", unique)))
        await note(cache.cas, "missing", 1, unique)
        await note(cache.delete, key)
        await note(cache.delete, key)
        for method in (cache.gets, cache.meta, cache.get):
            await note(method, key)
        await note(cache.touch, key, 1)
        await note(cache.gat, key, 1)
        await note(cache.replace, key, 1)
        await note(cache.append, key, "x")
        await note(cache.incr, key)
        await note(cache.incr, key, initial=7)
        await note(cache.incr, key, 5)
        await note(cache.decr, key, 2, initial=1)
        await note(cache.get, key)
    await note(cache.set, "word", "word")
    await note(cache.incr, "word")
    for bad in ("", "with space", "x" * 300, 5):
        await note(cache.get, bad)
        await note(cache.set, bad, 1)
        await note(cache.get_many, [bad])
        await note(cache.set_many, {bad: 1})
        await note(cache.delete_many, ["word", bad])
        await note(cache.get, bad)
    await note(cache.set, "object", object())
    await note(cache.set, "large", b"x" * (1024 * 1024 + 1))
    await note(cache.incr, "word", -1)
    await note(cache.stats, "no such\r\n")
    given.append([sorted(each) >= ["bytes"] for each in (await cache.stats()).values()])
    given.append(list((await cache.version()).values()))
    for count in (0, 1, 3000):
        items: dict[str | bytes, Any] = {f"many:{n}" if n % 3 else b"many:%d" % n: n for n in range(count)}
        await note(cache.get_many, list(items))
        await note(cache.set_many, items, ttl=100)
        await note(cache.get_many, [*items, "absent"])
        assert await cache.gat_many([*items, "absent"], 300) == items
        await note(cache.touch_many, [*items, "absent"], 200)
        await note(cache.delete_many, [*items, "absent"])
        await note(cache.get_many, items)
    for size in (0, 1, 16383, 16384, 16385, 200_000, 900_000):
        await note(cache.set, f"size:{size}", b"s" * size)
        await note(cache.get, f"size:{size}")
    await note(cache.get_many, [f"size:{size}" for size in (16383, 200_000, 900_000, 0)])
    found = await cache.gets_many([*items, "absent"])
    given.append({key: value for key, (value, _) in found.items()})
    given.append([await cache.cas(key, value, token) for key, (value, token) in list(found.items())[:3]])
    async with cache.quiet() as batch:
        await batch.set("quiet", 1)
        await batch.incr("quiet", 4)
        await batch.set("quiet:text", "b")
        await batch.append("quiet:text", "c")
        await batch.prepend("quiet:text", "a")
        await batch.add("quiet:added", 1)
        await batch.replace("quiet:added", 2)
        await batch.decr("quiet")
        for n in range(3000):
            await batch.set(f"quiet:{n}", n)
        await batch.delete("quiet:2999")
    await note(cache.get_many, ["quiet", "quiet:text", "quiet:added", *(f"quiet:{n}" for n in range(3000))])
    try:
        async with cache.quiet() as batch:
            for n in range(1500):
                await batch.add(f"quiet:{n}", n)
            await batch.delete("absent")
            await batch.replace("absent", 1)
    except pinyon.BatchError as error:
        given.append((sorted(error.failures), str(error), error.sent))
    try:
        async with cache.quiet() as batch:
            await batch.set("quiet:number", 1)
            await batch.incr("quiet:text")
    except pinyon.BatchError as error:
        # The blocking client's batch ends at a server's error, which may also fail the set before it.
        given.append([(each.key, each.command, type(each.error)) for each in error.failures if each.command == "incr"])
    await note(cache.flush_all)
    await note(cache.get, "quiet")
    await note(cache.flush_all, 100)
    cache.close()
    await note(cache.get, "quiet")
    await note(cache.get_many, ["quiet"])
    await note(cache.set_many, {"quiet": 1})
    await note(cache.version)
    return given


@pytest.mark.parametrize(
    "settings",
    [{}, {"namespace": "app:"}, {"encode_keys": True}, {"encode_keys": True, "namespace": b"b:"}],
    ids=str,
)
@pytest.mark.parametrize("count", [1, 4])
@cooperative
def test_every_method_gives_what_the_blocking_client_gives(
    model: Model, count: int, settings: dict[str, Any], four: list[Memcached]
) -> None:
    servers = [server.address for server in four[:count]]

    def given_by(each: Model) -> list[Any]:
        for server in four:
            server.flush()
        return each.run(whole_api(each.client(servers, **{"timeout": 60, "connect_timeout": 60, **settings})))

    blocking, given = given_by(BLOCKING), given_by(model)
    for position, (expected, got) in enumerate(zip(blocking, given)):
        assert got == expected, position
        assert type(got) is type(expected)
    assert len(blocking) == len(given)


async def work(cache: Any, chance: Any, worker: int, rounds: int) -> None:
    """Random operations. Every value that is read must belong to its key."""
    own = None
    for number in range(rounds):
        key = f"key:{chance.randrange(200)}"
        match = chance.randrange(5)
        if match == 0:
            size = chance.choice([3, 100, 3000, 20_000])
            assert await cache.set(key, f"{key}=" + "v" * size)
        elif match == 1:
            wanted = [f"key:{chance.randrange(200)}" for _ in range(10)]
            for found, value in (await cache.get_many(wanted)).items():
                assert value.startswith(f"{found}=")
        elif match == 2:
            own = number
            assert await cache.set(f"own:{worker}", own)
        elif match == 3 and own is not None:
            assert await cache.get(f"own:{worker}", own) == own
        else:
            value = await cache.get(key)
            assert value is None or value.startswith(f"{key}=")


@pytest.mark.parametrize("connections", [1, 3])
@every_model
async def test_64_workers_get_the_values_of_their_own_keys(
    model: Model, connections: int, four: list[Memcached], connect: Connect
) -> None:
    # Those who wait for one connection wait for each other, on a busy machine for long.
    cache = connect(*four, timeout=300, **{"connections" if model.cancels else "max_connections": connections})
    assert await model.gather(work(cache, shuffled(n), n, 60) for n in range(64)) == [None] * 64


@every_model
async def test_20000_at_a_time_are_done_in_their_order(model: Model, server: Memcached, connect: Connect) -> None:
    total = 20_000 if model.cancels else 200
    cache = connect(server)
    assert await model.gather(cache.set(f"key:{n}", n) for n in range(total)) == [True] * total
    assert await model.gather(cache.get(f"key:{n}") for n in range(total)) == list(range(total))
    if model.cancels:
        assert await cache.incr("count", initial=0) == 0
        assert await model.gather(cache.incr("count") for _ in range(5000)) == list(range(1, 5001))


@cooperative
async def test_large_values_among_small_ones(model: Model, server: Memcached, connect: Connect) -> None:
    large = b"L" * 900_000
    cache = connect(server)
    tasks = []
    for n in range(2000):
        tasks.append(model.spawn(cache.set(f"key:{n}", n)))
        if n % 400 == 0:
            tasks.append(model.spawn(cache.set(f"large:{n}", large + b"%d" % n)))
    for task in tasks:
        assert await model.join(task) is True
    gets = []
    for n in range(2000):
        gets.append((n, model.spawn(cache.get(f"key:{n}"))))
        if n % 400 == 0:
            gets.append((large + b"%d" % n, model.spawn(cache.get(f"large:{n}"))))
    for expected, task in gets:
        assert await model.join(task) == expected


@cooperative
async def test_a_batch_is_done_in_its_order_over_several_connections(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server, connections=3)
    await model.gather(cache.get("key") for _ in range(10))
    async with cache.quiet() as batch:
        await batch.set("key", "a")
        for letter in "bcdefgh" * 100:
            await batch.append("key", letter)
    assert await cache.get("key") == "a" + "bcdefgh" * 100
