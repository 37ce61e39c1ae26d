"""Hot keys in memory: what a process keeps, who else sees it, and what makes it forget."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from models import Model, every_model
from servers import Memcached
from test_fork import in_child

import pinyon

Connect = Callable[..., Any]

#: A time that no test outlasts.
FOREVER = 10_000.0


@pytest.fixture
def connect(connect: Connect) -> Connect:
    """Makes clients that keep hot keys for longer than any test lasts."""
    return partial(connect, near=pinyon.Near(fresh=FOREVER), timeout=20, connect_timeout=20)


@pytest.fixture
def others(server: Memcached) -> pinyon.Client:
    """Another process's client, for all that this one knows of it."""
    return pinyon.Client(server.address, timeout=20, connect_timeout=20)


@every_model
async def test_a_value_is_read_once_and_then_returned_from_memory(
    model: Model, server: Memcached, connect: Connect, others: pinyon.Client
) -> None:
    cache = connect(server)
    others.set("k", "old")
    assert await cache.get("k") == "old"
    others.set("k", "new")
    assert await cache.get("k") == "old"
    assert await cache.get_many(["k", "absent"]) == {"k": "old"}
    assert cache.near_metrics() == pinyon.NearMetrics(hits=2, fills=1, bytes=cache.near_metrics().bytes)
    get = cache.metrics()[server.address].command("get")
    assert (get.hits, get.misses) == (1, 1), "a server is not asked for what is in memory"
    assert await cache.using(near=False).get("k") == "new"
    assert await cache.using(near=False).get_many(["k"]) == {"k": "new"}
    assert await cache.get("k") == "old", "a view without hot keys does not fill"


@every_model
async def test_what_many_keys_have_read_is_kept_too(
    model: Model, server: Memcached, connect: Connect, others: pinyon.Client
) -> None:
    cache = connect(server)
    values = {f"k{number}": number for number in range(300)}
    others.set_many(values)
    assert await cache.get_many(values) == values
    others.delete_many(values)
    assert await cache.get_many(values) == values
    assert await cache.get("k7") == 7


#: Each way in which a process changes an item, or all of them.
CHANGES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "set": ("set", ("k", b"2")),
    "add": ("add", ("k", b"2")),
    "replace": ("replace", ("k", b"2")),
    "append": ("append", ("k", b"2")),
    "prepend": ("prepend", ("k", b"2")),
    "cas": ("cas", ("k", b"2", 1)),
    "incr": ("incr", ("k", 1)),
    "decr": ("decr", ("k", 1)),
    "touch": ("touch", ("k", 60)),
    "gat": ("gat", ("k", 60)),
    "delete": ("delete", ("k",)),
    "set_many": ("set_many", ({"k": b"2"},)),
    "delete_many": ("delete_many", (["k"],)),
    "touch_many": ("touch_many", (["k"], 60)),
    "gat_many": ("gat_many", (["k"], 60)),
    "flush_all": ("flush_all", ()),
}


@every_model
@pytest.mark.parametrize("name", CHANGES)
async def test_changes_of_this_process_count_at_once(
    model: Model, server: Memcached, connect: Connect, others: pinyon.Client, name: str
) -> None:
    cache = connect(server)
    view = cache.using(failover=False)
    others.set("k", b"1")
    assert await cache.get("k") == b"1"
    others.set("k", b"3")
    assert await view.get("k") == b"1"
    method, arguments = CHANGES[name]
    await getattr(cache.using(on_failure="miss"), method)(*arguments)
    now = others.get("k")
    assert now != b"1"
    assert await cache.get("k") == now
    assert await view.get_many(["k"]) == ({} if now is None else {"k": now})


@every_model
async def test_a_batch_and_get_or_set_count_at_once(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    await cache.set("k", 1)
    assert await cache.get("k") == 1
    async with cache.quiet() as batch:
        await batch.set("k", 2)
    assert await cache.get("k") == 2
    await cache.delete("k")
    assert await cache.get("k") is None
    assert await cache.get_or_set("k", lambda: 3, ttl=60) == 3
    assert await cache.get("k") == 3


@every_model
async def test_a_batch_that_fails_forgets_its_keys(model: Model, own_server: Memcached, connect: Connect) -> None:
    cache = connect(own_server, timeout=5, connect_timeout=5)
    await cache.set("k", "old")
    assert await cache.get("k") == "old"
    own_server.stop()
    with pytest.raises(pinyon.BatchError):
        async with cache.quiet() as batch:
            await batch.set("k", "new")
    with pytest.raises(pinyon.Error):
        await cache.get("k")


@every_model
async def test_callers_never_share_an_object_that_can_change(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server, serializer="pickle")
    await cache.set("k", {"list": [1]})
    values = [await cache.get("k") for _ in range(3)]
    values[1]["list"].append(2)
    assert values[2] == await cache.get("k") == {"list": [1]}
    assert cache.near_metrics().hits == 3


@every_model
async def test_a_value_that_cannot_be_read_is_as_it_would_be_from_the_server(
    model: Model, server: Memcached, connect: Connect, others: pinyon.Client
) -> None:
    cache = connect(server, serializer="pickle")
    others.set("k", {"not": "a pickle"})
    for _ in range(3):
        with pytest.raises(pinyon.UndecodableValue, match=server.address):
            await cache.get("k")
    assert await cache.using(on_unreadable="miss").get("k", "default") == "default"
    assert cache.near_metrics().hits == 3


@every_model
async def test_a_value_that_is_unchanged_is_not_sent_again_by_a_server_that_compares(
    model: Model, own_server: Memcached, connect: Connect
) -> None:
    size, reads = 500_000, 5
    cache = connect(own_server, near=pinyon.Near(fresh=1e-9))
    others = pinyon.Client(own_server.address, timeout=20, connect_timeout=20)
    (version,) = others.version().values()
    compares = tuple(int(part) for part in version.split("_")[0].split(".")) >= (1, 6, 40)

    # memcached counts bytes after it has sent them, but before it reads the connection's next command.
    async def bytes_written() -> int:
        return int((await cache.stats())[own_server.address]["bytes_written"])

    async def sent_for(value: bytes) -> int:
        before = await bytes_written()
        for _ in range(reads):
            assert await cache.get("k") == value
        return await bytes_written() - before

    others.set("k", b"o" * size)
    # What is read on a new connection, or together with others, tells no token that can be used.
    for _ in range(3):
        assert await cache.get("k") == b"o" * size
    sent = await sent_for(b"o" * size)
    assert sent < size if compares else sent > (reads - 1) * size
    others.set("k", b"n" * size)
    sent = await sent_for(b"n" * size)
    assert size < sent < 2 * size if compares else sent > (reads - 1) * size
    figures = cache.near_metrics()
    assert (figures.hits, figures.fills, figures.revalidations) == (0, 3 + 2 * reads, 2 + 2 * reads)


@every_model
async def test_keys_in_base64_are_other_keys(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server, encode_keys=True)
    await cache.set_many({"a b": 1, "YSBi": 2})
    for _ in range(2):
        assert [await cache.get("a b"), await cache.get("YSBi")] == [1, 2]
    assert cache.near_metrics().hits == 2
    await cache.delete("a b")
    assert [await cache.get("a b"), await cache.get("YSBi")] == [None, 2]


@every_model
async def test_large_values_are_kept_as_far_as_they_fit(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server, near=pinyon.Near(max_bytes=400_000, fresh=FOREVER), max_value_size=900_000)
    large, too_large = b"x" * 100_000, b"x" * 800_000
    await cache.set("large", large)
    await cache.set("too_large", too_large)
    for _ in range(3):
        assert await cache.get("large") == large
        assert await cache.get("too_large") == too_large
    figures = cache.near_metrics()
    assert figures.hits == 2
    assert 100_000 < figures.bytes < 101_000


def test_all_threads_share_what_one_has_read(server: Memcached, others: pinyon.Client) -> None:
    cache = pinyon.Client(server.address, near=pinyon.Near(fresh=FOREVER), timeout=20)
    others.set("k", "old")
    cache.get("k")
    others.set("k", "new")
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(cache.get("k"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["old"] * 4


def test_a_forked_child_begins_without_any(server: Memcached, others: pinyon.Client) -> None:
    cache = pinyon.Client(server.address, near=pinyon.Near(fresh=FOREVER), timeout=20)
    others.set("k", "old")
    assert cache.get("k") == cache.get("k") == "old"
    others.set("k", "new")

    def child() -> list[Any]:
        before = cache.near_metrics()
        return [before == pinyon.NearMetrics(), cache.get("k"), cache.near_metrics().fills]

    assert in_child(child) == [True, "new", 1]
    assert cache.get("k") == "old"


def test_a_client_without_keeps_none(server: Memcached) -> None:
    for near in (None, False):
        cache = pinyon.Client(server.address, near=near)
        cache.set("k", 1)
        assert cache.get("k") == cache.using(near=True).get("k") == 1
        assert cache.near_metrics() == pinyon.NearMetrics()


def test_settings_are_checked_where_they_are_given() -> None:
    assert repr(pinyon.Near(fresh=timedelta(milliseconds=500))) == "<pinyon.Near max_bytes=33554432, fresh=0.5>"
    with pytest.raises(pinyon.UsageError, match="fresh must be a positive number of seconds, not 0"):
        pinyon.Near(fresh=0)
    with pytest.raises(pinyon.UsageError, match="max_bytes must be at least 1, not 0"):
        pinyon.Near(max_bytes=0)
    with pytest.raises(pinyon.UsageError, match=r"near must be True, False or a pinyon\.Near, not int"):
        pinyon.Client(near=5)  # type: ignore[arg-type]
