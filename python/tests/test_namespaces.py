"""Clearing a namespace: what is gone, for whom, and what it costs on the wire."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from faulty import OlderServer
from models import Model, every_model
from servers import Memcached
from test_fork import in_child
from test_migration import migrating
from waiting import SOON

import pinyon

Connect = Callable[..., Any]

#: A time that no test outlasts: what is known is not asked for again.
FOREVER = 10_000.0


@pytest.fixture
def connect(connect: Connect) -> Connect:
    """Makes clients of one clearable namespace, which ask each time."""
    return partial(connect, namespace="shop:", clearable=True, generation_ttl=0, timeout=20, connect_timeout=20)


async def values_of(cache: Any) -> dict[str, Any]:
    """What is found by each way of reading."""
    found = await cache.get_many(["a", "b"])
    single = {key: value for key in ("a", "b") if (value := await cache.get(key)) is not None}
    assert found == single
    return single


@every_model
@pytest.mark.parametrize("generation_ttl", [0, FOREVER])
async def test_every_command_works_in_a_clearable_namespace(
    model: Model, server: Memcached, connect: Connect, generation_ttl: float
) -> None:
    cache = connect(server, generation_ttl=generation_ttl, encode_keys=True)
    for _ in range(2):
        assert await cache.incr("count", 2, initial=5) == 5
        assert await cache.incr("count", 2, initial=5) == 7
        assert await cache.add("a", "x")
        assert not await cache.add("a", "y")
        value, token = await cache.gets("a")
        assert value == "x"
        assert await cache.cas("a", "z", token)
        assert await cache.gets_many(["a"]) != {}
        assert await cache.get("a") == "z"
        assert await cache.gat("a", 10) == "z"
        assert await cache.touch("a", 20)
        assert await cache.gat_many(["a", "no"], 10) == {"a": "z"}
        assert await cache.replace("a", b"1")
        assert await cache.append("a", b"2")
        assert await cache.get("a") == b"12"
        assert await cache.set_many({f"k{n}": n for n in range(300)}) == []
        assert len(await cache.get_many([f"k{n}" for n in range(300)])) == 300
        assert await cache.delete_many(["k1", "k2"]) == 2
        assert await cache.set("a b", 1)
        assert await cache.set("k" * 500, 2)
        assert await cache.get_many(["a b", "k" * 500]) == {"a b": 1, "k" * 500: 2}
        assert await cache.get_or_set("made", lambda: "made", 10) == "made"
        async with cache.quiet() as batch:
            for number in range(300):
                await batch.set(f"q{number}", number)
        assert await cache.get("q299") == 299
        await cache.clear_namespace()
        assert await values_of(cache) == {}
        assert await cache.get("made") is None


@every_model
async def test_a_counter_counts_once_although_the_namespace_was_cleared_meanwhile(
    model: Model, server: Memcached, connect: Connect
) -> None:
    one, other = connect(server), connect(server)
    for _ in range(20):
        assert await one.incr("count", initial=1) == 1
        await other.clear_namespace()


@every_model
async def test_something_else_in_the_place_of_the_generation_is_an_error(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    server.ask(b"set shop:!generation 0 0 3\r\nfoo\r\n", b"STORED\r\n")
    with pytest.raises(pinyon.UndecodableValue, match="shop:!generation is not a generation"):
        await cache.get("a")
    await cache.clear_namespace()
    assert await cache.get("a") is None


@every_model
async def test_classic_text_and_older_servers(
    model: Model, server: Memcached, classic_server: OlderServer, older_meta_server: OlderServer, connect: Connect
) -> None:
    for older in (classic_server, older_meta_server):
        cache = connect(older)
        await cache.set_many({"a": 1, "b": 2})
        assert await values_of(cache) == {"a": 1, "b": 2}
        await connect(server).clear_namespace()
        assert await values_of(cache) == {}


@every_model
async def test_several_servers_are_all_cleared(model: Model, four: list[Memcached], connect: Connect) -> None:
    cache = connect(*four)
    pairs = {f"key{number}": number for number in range(100)}
    await cache.set_many(pairs)
    assert await cache.get_many(pairs) == pairs
    before = {key: cache.servers_of(key) for key in pairs}
    await cache.clear_namespace()
    assert await cache.get_many(pairs) == {}
    assert {key: cache.servers_of(key) for key in pairs} == before


@every_model
async def test_a_server_that_was_restarted_is_cleared(model: Model, own_server: Memcached, connect: Connect) -> None:
    cache = connect(own_server)
    for _ in range(3):
        await cache.set("a", 1)
        own_server.restart()
        await cache.clear_namespace()
        assert await values_of(cache) == {}


@every_model
async def test_a_server_that_was_away_is_cleared_before_it_is_read(
    model: Model, own_server: Memcached, server: Memcached, connect: Connect
) -> None:
    cache = connect(own_server, server, failover=False, generation_ttl=FOREVER, timeout=3, connect_timeout=3)
    pairs = {f"key{number}": number for number in range(50)}
    await cache.set_many(pairs)
    here = [key for key in pairs if cache.servers_of(key)[0] == own_server.address]
    own_server.pause()
    try:
        with pytest.raises(pinyon.Error) as raised:
            await cache.clear_namespace()
    finally:
        own_server.resume()
    assert raised.value.server == own_server.address
    assert raised.value.command == "clear_namespace"

    found = None
    for _ in range(int(SOON * 10)):
        try:
            found = await cache.get_many(pairs)
        except pinyon.Error:
            await model.sleep(0.1)
        else:
            break
    assert here
    assert found == {}


def test_a_client_that_cannot_clear_says_what_to_set(server: Memcached) -> None:
    cache = pinyon.Client(server.address, namespace="shop:")
    with cache, pytest.raises(pinyon.UsageError, match="clearable"):
        cache.clear_namespace()
    for settings, message in (
        ({}, "needs a namespace"),
        ({"namespace": "shop:", "key_rule": "dalli"}, "do not go together"),
        ({"namespace": "n" * 240}, "leaves no room"),
        ({"namespace": "shop:", "generation_ttl": -1}, "generation_ttl"),
    ):
        with pytest.raises(pinyon.UsageError, match=message):
            pinyon.Client(server.address, clearable=True, **settings)


def test_a_long_key_is_refused_with_all_lengths(server: Memcached) -> None:
    with pinyon.Client(server.address, namespace="shop:", clearable=True) as cache:
        assert cache.namespace == b"shop:"
        with pytest.raises(pinyon.InvalidKey, match="240 bytes, the namespace 5 and its generation 11"):
            cache.get("k" * 240)


def test_two_clears_at_once_are_a_clear(server: Memcached) -> None:
    settings: dict[str, Any] = {"namespace": "shop:", "clearable": True, "timeout": 20, "generation_ttl": 0}
    clients = [pinyon.Client(server.address, **settings) for _ in range(4)]
    for _ in range(20):
        clients[0].set("a", 1)
        threads = [threading.Thread(target=client.clear_namespace) for client in clients for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert [client.get("a") for client in clients] == [None] * 4


def test_a_child_sees_clears_of_its_parent_and_the_parent_the_childs(server: Memcached) -> None:
    settings: dict[str, Any] = {"namespace": "shop:", "clearable": True, "timeout": 20, "generation_ttl": 0}
    with pinyon.Client(server.address, **settings) as cache:
        cache.set("a", 1)
        assert in_child(lambda: (cache.get("a"), cache.clear_namespace(), cache.get("a"))) == (1, None, None)
        assert cache.get("a") is None


#: What one call costs the server: reads and stores, by how well the generation is known.
COSTS: dict[str, Callable[[pinyon.Client], object]] = {
    "get": lambda cache: cache.get("a"),
    "set": lambda cache: cache.set("a", 1),
    "get_many of 10 keys": lambda cache: cache.get_many([f"k{number}" for number in range(10)]),
    "set_many of 10 keys": lambda cache: cache.set_many({f"k{number}": number for number in range(10)}),
    "clear_namespace": lambda cache: cache.clear_namespace(),
}


@pytest.mark.parametrize(
    ("call", "plain", "known", "asked"),
    [
        ("get", (1, 0), (1, 0), (2, 0)),
        ("set", (0, 1), (0, 1), (1, 1)),
        ("get_many of 10 keys", (10, 0), (10, 0), (11, 0)),
        ("set_many of 10 keys", (0, 10), (0, 10), (1, 10)),
        ("clear_namespace", None, (0, 1), (0, 1)),
    ],
)
def test_what_a_call_costs_on_the_wire(
    own_server: Memcached,
    call: str,
    plain: tuple[int, int] | None,
    known: tuple[int, int],
    asked: tuple[int, int],
) -> None:
    """The figures of docs/namespaces.md."""

    def cost(**settings: Any) -> tuple[int, int]:
        with pinyon.Client(own_server.address, namespace="shop:", timeout=20, **settings) as cache:
            cache.get("warm")
            before = [own_server.statistic(name) for name in ("cmd_get", "cmd_set")]
            COSTS[call](cache)
            after = [own_server.statistic(name) for name in ("cmd_get", "cmd_set")]
            return after[0] - before[0], after[1] - before[1]

    if plain is not None:
        assert cost() == plain
    assert cost(clearable=True, generation_ttl=FOREVER) == known
    assert cost(clearable=True, generation_ttl=0) == asked


@every_model
@pytest.mark.parametrize("generation_ttl", [0, FOREVER])
async def test_reads_leave_the_lease_to_others_in_a_cleared_namespace_too(
    model: Model, server: Memcached, connect: Connect, generation_ttl: float
) -> None:
    cache = connect(server, generation_ttl=generation_ttl)
    await cache.clear_namespace()
    await cache.set_many({"a": 1, "b": 2}, ttl=60)
    for key in ("a", "b"):
        await cache.delete(key, stale=30)
    assert await values_of(cache) == {"a": 1, "b": 2}
    assert [await cache.get_or_set(key, lambda: 3, ttl=60) for key in ("a", "b")] == [3, 3]


@every_model
async def test_a_clear_while_a_pool_is_left_clears_both(
    model: Model, server: Memcached, own_server: Memcached, connect: Connect
) -> None:
    old, new = connect(own_server), connect(server)
    await old.set_many({"a": 1, "b": 2})
    await new.set("a", 3)
    both = migrating(old, new)
    assert await both.get("a") == 3
    assert await both.clear_namespace() is None
    assert await both.get_many(["a", "b"]) == await values_of(old) == await values_of(new) == {}
    await both.set("a", 4)
    assert await both.get_many(["a", "b"]) == {"a": 4}
    for pair in ((connect(own_server, clearable=False), new), (old, connect(server, clearable=False))):
        with pytest.raises(pinyon.UsageError, match="clearable"):
            await migrating(*pair).clear_namespace()
