"""Tags: values that are invalidated together, for whom and when, and what they cost on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from faulty import OlderServer
from making import awaited
from models import Awaited, Model, every_model
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
    """Makes clients that ask for tags each time."""
    return partial(connect, generation_ttl=0, timeout=20, connect_timeout=20)


async def refreshed(cache: Any, make: Callable[[], Any]) -> Any:
    """What ``refresh`` of a function with the key "k" and the tag "t" returns."""

    async def awaited_make() -> Any:
        return make()

    function = make if isinstance(cache, Awaited) else awaited_make
    decorator = getattr(cache, "wrapped", cache).cached("k", 60, tags=["t"])
    return await awaited(decorator(function).refresh())


async def read_in_every_way(cache: Any, key: str) -> list[Any]:
    """What each way of reading finds."""
    found, with_ttl = await cache.gets(key), await cache.get_with_ttl(key)
    pairs = [await cache.get_many([key]), await cache.gat_many([key], 100)]
    with_token = await cache.gets_many([key])
    single = [await cache.get(key), await cache.gat(key, 100), found and found[0], with_ttl and with_ttl[0]]
    return [*single, *(pair.get(key) for pair in pairs), with_token[key][0] if with_token else None]


@every_model
@pytest.mark.parametrize("value", ["text", 7, {"a": [1, None]}, b"x" * 30_000, "long " * 10_000, b"", True])
async def test_a_value_is_read_in_every_way_until_its_tag_is_invalidated(
    model: Model, server: Memcached, connect: Connect, value: object
) -> None:
    cache, other = connect(server, compression="zlib"), connect(server)
    assert await cache.set("k", value, 100, tags=["user:7", "page"])
    assert await read_in_every_way(cache, "k") == await read_in_every_way(other, "k") == [value] * 7
    assert await other.invalidate_tags("page") is None
    assert await read_in_every_way(cache, "k") == await read_in_every_way(other, "k") == [None] * 7
    assert await cache.get("k", "default") == "default"


@every_model
async def test_every_way_to_store_takes_tags(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    keys = ["set", "add", "replace", "cas", "one", "two", "made", "made1", "made2"]
    for _ in range(2):
        await cache.delete_many(keys)
        await cache.set_many(dict.fromkeys(["replace", "cas", "plain"], 0))
        _, token = await cache.gets("cas")
        assert await cache.set("set", 1, tags=("t",))
        assert await cache.add("add", 1, tags={"t"})
        assert await cache.replace("replace", 1, tags=iter(["t"]))
        assert await cache.cas("cas", 1, token, tags="t")
        assert await cache.set_many({"one": 1, "two": 1}, tags=[b"t", "u"]) == []
        assert await cache.get_or_set("made", lambda: 1, 10, tags=["t"]) == 1
        made = await cache.get_or_set_many(["made1", "made2"], lambda keys: dict.fromkeys(keys, 1), 10, tags=["t"])
        assert made == {"made1": 1, "made2": 1}
        assert await cache.get_many(keys) == dict.fromkeys(keys, 1)
        await cache.invalidate_tags("t", "another")
        assert await cache.get_many([*keys, "plain"]) == {"plain": 0}


@every_model
async def test_an_invalidated_value_is_made_anew(model: Model, server: Memcached, connect: Connect) -> None:
    cache, other = connect(server), connect(server)
    numbers = iter(range(10))
    for number in range(3):
        assert await cache.get_or_set("k", lambda: next(numbers), 60, stale=30, tags=["t"]) == number
        assert await other.get_or_set("k", lambda: next(numbers), 60, stale=30, tags=["t"]) == number
        await other.invalidate_tags("t")
    for number in range(3, 5):
        made = await cache.get_or_set_many(["k", "l"], lambda keys: dict.fromkeys(keys, next(numbers)), 60, tags="t")
        assert made == {"k": number, "l": number}
        await other.invalidate_tags("t")


@every_model
async def test_what_is_made_during_an_invalidation_does_not_count(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache, other = connect(server), connect(server)

    class Invalidates:
        """A maker whose sources change while it reads them."""

        def __init__(self) -> None:
            self.is_first = True

        def one(self) -> str:
            if not self.is_first:
                return "new"
            self.is_first = False
            with pinyon.Client(server.address) as another:
                another.invalidate_tags("t")
            return "old"

    maker = Invalidates()
    assert await cache.get_or_set("k", maker.one, 60, tags=["t"]) == "old"
    assert await cache.get("k") is None
    assert await other.get_or_set("k", maker.one, 60, tags=["t"]) == "new"
    assert await cache.get("k") == "new"
    maker = Invalidates()
    assert await refreshed(cache, maker.one) == "old"
    assert await cache.get("k") is None
    assert await refreshed(cache, maker.one) == "new"
    assert await other.get("k") == "new"
    await other.invalidate_tags("t")
    assert await cache.get("k") is None
    maker = Invalidates()
    many = await cache.get_or_set_many(["l"], lambda keys: {"l": maker.one()}, 60, tags=["t"])
    assert many == {"l": "old"}
    assert await other.get("l") is None


@every_model
async def test_an_old_value_that_is_kept_keeps_its_tags(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)

    def fail() -> str:
        raise RuntimeError

    await cache.set("k", "old", 60, tags=["t"])
    assert await cache.delete("k", stale=60)
    assert await cache.get_or_set("k", fail, 60, stale=30, on_error="stale", retry_after=20) == "old"
    assert await cache.get("k") == "old"
    await cache.invalidate_tags("t")
    assert await cache.get("k") is None
    with pytest.raises(RuntimeError):
        await cache.get_or_set("k", fail, 60, stale=30, on_error="stale")


@every_model
async def test_many_values_and_tags_on_many_servers(model: Model, four: list[Memcached], connect: Connect) -> None:
    cache, other = connect(*four, generation_ttl=FOREVER), connect(*four)
    pairs = {f"key{number}": number for number in range(100)}
    for key, number in pairs.items():
        await cache.set(key, number, tags=[f"tag{number % 10}", "all"])
    assert await other.get_many(pairs) == pairs
    await other.invalidate_tags("tag3", "tag4")
    left = {key: number for key, number in pairs.items() if number % 10 not in {3, 4}}
    assert await other.get_many(pairs) == left
    await cache.invalidate_tags("all")
    assert await cache.get_many(pairs) == await other.get_many(pairs) == {}


@every_model
async def test_classic_text_and_older_servers(
    model: Model, classic_server: OlderServer, older_meta_server: OlderServer, connect: Connect
) -> None:
    for older in (classic_server, older_meta_server):
        cache = connect(older)
        await cache.set("k", 1, tags=["t"])
        assert await cache.get("k") == 1
        assert await cache.get_many(["k"]) == {"k": 1}
        await cache.invalidate_tags("t")
        assert await cache.get("k") is None


@every_model
async def test_a_server_with_tags_that_is_away(
    model: Model, own_server: Memcached, server: Memcached, connect: Connect
) -> None:
    settings: dict[str, Any] = {"timeout": 2, "connect_timeout": 2}
    cache = connect(own_server, server, **settings)
    tag = next(name for name in map(str, range(100)) if cache.servers_of(f"!tag:{name}")[0] == own_server.address)
    key = next(name for name in map(str, range(100)) if cache.servers_of(name)[0] == server.address)
    await cache.set(key, 1, tags=[tag])
    own_server.pause()
    try:
        with pytest.raises(pinyon.Error) as raised:
            await cache.invalidate_tags(tag)
        assert (raised.value.server, raised.value.command) == (own_server.address, "invalidate_tags")
        assert await cache.get(key) is None, "nobody knows whether it was invalidated"
        with pytest.raises(pinyon.Error):
            await cache.using(failover=False).get(key)
        missing = cache.using(failover=False, on_failure="miss")
        assert await missing.get(key) is None
        with pytest.raises(pinyon.Error):
            await missing.invalidate_tags(tag)
    finally:
        own_server.resume()
    for _ in range(int(SOON * 10)):
        try:
            await cache.invalidate_tags(tag)
        except pinyon.Error:
            await model.sleep(0.1)
        else:
            break
    assert await cache.get(key) is None
    await cache.set(key, 2, tags=[tag])
    assert await cache.get(key) == 2


@every_model
async def test_something_else_in_the_place_of_a_tag(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    await cache.set("!tag:t", "text")
    with pytest.raises(pinyon.UndecodableValue, match=r"'t'|\"t\""):
        await cache.set("k", 1, tags=["t"])
    await cache.invalidate_tags("t")
    assert await cache.set("k", 1, tags=["t"])
    assert await cache.get("k") == 1


@every_model
async def test_what_appends_and_what_does_not_know_tags(model: Model, server: Memcached, connect: Connect) -> None:
    cache, other = connect(server), connect(server, dialect="pylibmc")
    await cache.set("k", b"a", tags=["t"])
    assert await cache.append("k", b"b")
    assert await cache.get("k") == b"ab"
    assert await cache.prepend("k", b"b")
    with pytest.raises(pinyon.UndecodableValue):
        await cache.get("k")
    await cache.set("k", 7, tags=["t"])
    with pytest.raises(pinyon.ServerError):
        await cache.incr("k")
    with pytest.raises(pinyon.UndecodableValue):
        await other.get("k")
    with pytest.raises(pinyon.UsageError, match="dialect"):
        await other.set("k", b"1", tags=["t"])
    with pytest.raises(pinyon.UsageError, match="dialect"):
        await other.invalidate_tags("t")
    with pytest.raises(pinyon.UsageError, match="dialect"):
        await other.get_or_set("k", lambda: b"1", 10, tags=["t"])


def test_names_that_no_tag_can_have_are_refused(server: Memcached) -> None:
    with pinyon.Client(server.address) as cache:
        for tags, kind, message in (
            ([""], pinyon.UsageError, "at least one byte"),
            (["a b"], pinyon.InvalidKey, 'the tag "a b"'),
            (["x" * 248], pinyon.InvalidKey, "250"),
            ([str(number) for number in range(65)], pinyon.UsageError, "64 tags"),
            (7, pinyon.UnsupportedType, "tags must be str or bytes"),
            ([None], pinyon.UnsupportedType, "tags must be str or bytes"),
        ):
            for call in (
                lambda tags=tags: cache.set("k", 1, tags=tags),
                lambda tags=tags: cache.set_many({"k": 1}, tags=tags),
                lambda tags=tags: cache.get_or_set("k", lambda: 1, 10, tags=tags),
                lambda tags=tags: cache.cached("k", ttl=10, tags=tags)(lambda: 1),
            ):
                with pytest.raises(kind, match=message):
                    call()
        assert cache.set("k", 1, tags=())
        assert cache.set("k", 1, tags=None)
        cache.invalidate_tags()


def test_a_cached_function_has_tags(server: Memcached) -> None:
    with pinyon.Client(server.address, generation_ttl=0) as cache:
        numbers = iter(range(10))

        @cache.cached("number", ttl=60, tags=["numbers"])
        def number() -> int:
            return next(numbers)

        assert (number(), number()) == (0, 0)
        cache.invalidate_tags("numbers")
        assert (number(), number()) == (1, 1)


def test_a_child_sees_invalidations_of_its_parent_and_the_parent_the_childs(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=20, generation_ttl=0) as cache:
        cache.set("k", 1, tags=["t"])
        assert in_child(lambda: (cache.get("k"), cache.invalidate_tags("t"), cache.get("k"))) == (1, None, None)
        assert cache.get("k") is None


@every_model
async def test_while_a_pool_is_left_values_with_tags_stay_behind(
    model: Model, server: Memcached, own_server: Memcached, connect: Connect
) -> None:
    old, new = connect(own_server), connect(server)
    await old.set("k", 1, tags=["t"])
    await old.set("plain", 1)
    both = migrating(old, new)
    assert await both.get_many(["k", "plain"]) == {"plain": 1}
    assert await both.get("k") is None
    assert await both.get_or_set("k", lambda: 2, 60, tags=["t"]) == 2
    assert await new.get("k") == 2
    assert await both.set("l", 3, tags=["t"])
    assert await both.set_many({"m": 3}, tags=["t"]) == []
    assert await both.get_many(["k", "l", "m"]) == {"k": 2, "l": 3, "m": 3}
    await both.invalidate_tags("t")
    assert await both.get_many(["k", "l", "m"]) == await new.get_many(["k", "l", "m"]) == {}


def calls() -> Iterator[tuple[str, Callable[[pinyon.Client], object], list[tuple[int, int]]]]:
    """Each call, and what it costs the server: reads and stores, if the tags are new, known, or asked for."""
    ten = [f"k{number}" for number in range(10)]
    yield "set", lambda cache: cache.set("a", 1, tags=["t"]), [(1, 2), (0, 1), (1, 1)]
    yield "get", lambda cache: cache.get("a"), [(2, 0), (1, 0), (2, 0)]
    yield "set_many", lambda cache: cache.set_many(dict.fromkeys(ten, 1), tags=["t"]), [(1, 11), (0, 10), (1, 10)]
    yield "get_many", lambda cache: cache.get_many(ten), [(11, 0), (10, 0), (11, 0)]
    yield "get_or_set", lambda cache: cache.get_or_set("m", lambda: 1, 60, tags=["t"]), [(2, 1), (1, 0), (2, 0)]
    yield "invalidate_tags", lambda cache: cache.invalidate_tags("t", "u"), [(0, 2), (0, 2), (0, 2)]


@pytest.mark.parametrize(("call", "run", "costs"), [*calls()], ids=[call for call, *_ in calls()])
def test_what_a_call_costs_on_the_wire(
    own_server: Memcached, call: str, run: Callable[[pinyon.Client], object], costs: list[tuple[int, int]]
) -> None:
    """The figures of docs/namespaces.md."""

    def cost(cache: pinyon.Client) -> tuple[int, int]:
        before = [own_server.statistic(name) for name in ("cmd_get", "cmd_set")]
        run(cache)
        after = [own_server.statistic(name) for name in ("cmd_get", "cmd_set")]
        return after[0] - before[0], after[1] - before[1]

    settings: dict[str, Any] = {"timeout": 20}
    if call in {"get", "get_many", "get_or_set"}:
        with pinyon.Client(own_server.address, **settings) as other:
            other.set_many(dict.fromkeys(["a", "m", *(f"k{number}" for number in range(10))], 1), tags=["t"])
    with pinyon.Client(own_server.address, generation_ttl=FOREVER, **settings) as knowing:
        knowing.get("warm")
        found = [cost(knowing), cost(knowing)]
    with pinyon.Client(own_server.address, generation_ttl=0, **settings) as asking:
        asking.get("warm")
        run(asking)
        found.append(cost(asking))
    assert found == costs
