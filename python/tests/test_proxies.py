"""Proxies: what twemproxy lets through, what it does not, and what finding out costs."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from faulty import Listener
from models import Model, every_model
from servers import Memcached, MemcachedProxy, Pool, Twemproxy

import pinyon

#: How proxies refuse a command. memcached's own closes the connection, as of 1.6.45.
REFUSED = (pinyon.ServerError, pinyon.ConnectionLost)

pytestmark = [
    every_model,
    pytest.mark.skipif(not shutil.which("nutcracker"), reason="nutcracker is not installed"),
]


@pytest.fixture(scope="module", params=["ketama", "modula"])
def proxy(request: pytest.FixtureRequest) -> Iterator[Twemproxy]:
    with Memcached() as one, Memcached() as other, Twemproxy(Pool(one, other, distribution=request.param)) as proxy:
        yield proxy


Connect = Callable[..., Any]


async def use_what_classic_text_allows(cache: Any) -> None:
    assert await cache.set("text", "välue")
    assert await cache.get("text") == "välue"
    assert not await cache.add("text", 1)
    assert await cache.replace("text", b"bytes")
    assert await cache.append("text", b"!")
    value, token = await cache.gets("text")
    assert value == b"bytes!"
    assert await cache.cas("text", {"a": [1]}, token) is True
    assert await cache.cas("text", 1, token) is False
    assert await cache.touch("text", 100)
    await cache.set("number", 5)
    assert [await cache.incr("number", 2), await cache.decr("number", 3)] == [7, 4]
    many = {f"key:{number}": number for number in range(200)}
    assert await cache.set_many(many) == []
    assert await cache.get_many([*many, "absent"]) == many
    assert await cache.delete_many([*many, "absent"]) == len(many)
    async with cache.quiet() as batch:
        for number in range(200):
            await batch.set(f"quiet:{number}", number)
    assert await cache.get("quiet:199") == 199
    assert await cache.get("absent") is None
    assert await cache.delete("text")
    assert await cache.version()


async def test_what_classic_text_allows_works_through_twemproxy(
    proxy: Twemproxy, model: Model, connect: Connect
) -> None:
    events: list[pinyon.Event] = []
    cache = connect(proxy.address, on_event=events.append, namespace=f"{model.name}:")
    await use_what_classic_text_allows(cache)
    assert [event.kind for event in events] == ["classic"]
    assert events[0].line.startswith(f"{proxy.address} refuses meta commands, as some proxies do")


async def test_a_proxy_that_changes_the_order_of_values_is_understood(
    proxy: Twemproxy, model: Model, connect: Connect
) -> None:
    """twemproxy does so where keys of several servers are missing."""
    cache = connect(proxy.address, namespace=f"{model.name}:order:")
    keys = [f"key:{number}" for number in range(60)]
    stored = {key: key for key in keys[::3]}
    assert await cache.set_many(stored) == []
    assert await cache.get_many(keys) == stored
    assert list(await model.gather(cache.get(key) for key in keys)) == [stored.get(key) for key in keys]


@pytest.mark.parametrize("protocol", ["auto", "classic"])
async def test_what_it_cannot_says_so_and_the_proxy_stays_in_use(
    proxy: Twemproxy, model: Model, connect: Connect, protocol: str
) -> None:
    cache = connect(proxy.address, protocol=protocol, encode_keys=True)
    await cache.set("key", "value")
    for method, arguments, settings in [
        ("gat", ("key", 10), {}),
        ("stats", (), {}),
        ("flush_all", (), {}),
        ("get_with_ttl", ("key",), {}),
        ("meta", ("key",), {}),
        ("delete", ("key",), {"stale": 10}),
        ("set", ("a key", 1), {}),
    ]:
        with pytest.raises(pinyon.Unsupported, match=r"classic text|does not know"):
            await getattr(cache, method)(*arguments, **settings)
        assert await cache.get("key") == "value"


async def eventually(model: Model, call: Callable[[], Any], result: object) -> None:
    """Repeats the call until this comes of it."""

    async def comes() -> bool:
        with contextlib.suppress(pinyon.ServerError):
            return bool(await call() == result)
        return False

    await model.until(comes)


class Counting(Listener):
    """Passes connections on, and counts them."""

    def __init__(self, target: str) -> None:
        self.target = target
        super().__init__()

    def serve(self, connection: socket.socket, number: int) -> None:
        self.relay(connection, self.target)


class CutsOffMeta(Listener):
    """A server that closes the connection on a meta command, or an unknown one."""

    ANSWERS: ClassVar = {
        b"version\r\n": b"VERSION 1.6.18\r\n",
        b"get key\r\n": b"VALUE key 16 5\r\nvalue\r\nEND\r\n",
    }

    def serve(self, connection: socket.socket, number: int) -> None:
        with connection.makefile("rb") as lines:
            for line in lines:
                if line not in self.ANSWERS:
                    return
                connection.sendall(self.ANSWERS[line])


async def test_finding_out_costs_one_connection_and_no_command(model: Model, connect: Connect) -> None:
    with CutsOffMeta() as server:
        cache = connect(server.address)
        assert [await cache.get("key"), await cache.get("key")] == ["value", "value"]
        assert server.accepted == 2


async def test_finding_out_what_twemproxy_takes_costs_one_connection(model: Model, connect: Connect) -> None:
    with Memcached() as server, Twemproxy(Pool(server)) as proxy, Counting(proxy.address) as counting:
        cache = connect(counting.address)
        for number in range(20):
            assert await cache.set(f"key:{number}", number)
        assert await cache.get_many([f"key:{number}" for number in range(20)])
        assert counting.accepted == 2


async def test_several_pools_are_several_clients(model: Model, connect: Connect) -> None:
    with Memcached() as one, Memcached() as other:
        pools = [Pool(one), Pool(other, distribution="modula")]
        with Twemproxy(*pools):
            caches = [connect(pool.address) for pool in pools]
            for number, cache in enumerate(caches):
                assert await cache.set("key", number)
            assert [await cache.get("key") for cache in caches] == [0, 1]
            assert await caches[0].delete("key")
            assert [one.holds("key"), other.holds("key")] == [False, True]


async def test_several_proxies_of_one_pool_may_stand_behind_a_ring(model: Model, connect: Connect) -> None:
    servers = Memcached(), Memcached()
    proxies = Twemproxy(Pool(*servers)), Twemproxy(Pool(*servers))
    with servers[0], servers[1], proxies[0], proxies[1]:
        cache = connect(*proxies)
        keys = {f"key:{number}": number for number in range(100)}
        assert await cache.set_many(keys) == []
        assert await cache.get_many(keys) == keys
        assert {cache.servers_of(key)[0] for key in keys} == {proxy.address for proxy in proxies}
        proxies[1].stop()
        await eventually(model, lambda: cache.get_many(keys, failed={}), keys)


async def test_namespaces_and_hash_tags_are_the_proxys_to_read(model: Model, connect: Connect) -> None:
    """The proxy sees the whole key: a tag in a namespace is one too."""
    with Memcached() as one, Memcached() as other, Twemproxy(Pool(one, other, hash_tag="{}")) as proxy:
        cache = connect(proxy.address, namespace="app:")
        keys = [f"{{user:7}}:{number}" for number in range(30)]
        assert await cache.set_many(dict.fromkeys(keys, 1)) == []
        held = [[server.holds(f"app:{key}") for key in keys] for server in (one, other)]
        assert sorted(held) == [[False] * 30, [True] * 30]
        plain = [f"key:{number}" for number in range(30)]
        await cache.set_many(dict.fromkeys(plain, 1))
        assert 0 < sum(one.holds(f"app:{key}") for key in plain) < 30


async def test_a_server_behind_a_proxy_dies_and_comes_back(model: Model, connect: Connect) -> None:
    with Memcached() as one, Memcached() as other, Twemproxy(Pool(one, other, server_retry_timeout=100)) as proxy:
        cache = connect(proxy.address)
        keys = [f"key:{number}" for number in range(50)]
        await cache.set_many(dict.fromkeys(keys, 1))
        theirs = [key for key in keys if other.holds(key)]
        other.stop()
        with pytest.raises(pinyon.ServerError):
            await cache.set(theirs[0], 2)
        other.restart()
        await eventually(model, lambda: cache.set(theirs[0], 2), True)
        assert other.holds(theirs[0])


async def test_a_server_that_the_proxy_ejects_comes_back_with_what_it_had(model: Model, connect: Connect) -> None:
    """With ``auto_eject_hosts``: the client notices neither, so old values are there again."""
    settings = {"auto_eject_hosts": True, "server_failure_limit": 1, "server_retry_timeout": 500}
    with Memcached() as one, Memcached() as other, Twemproxy(Pool(one, other, **settings)) as proxy:
        cache = connect(proxy.address)
        keys = [f"key:{number}" for number in range(50)]
        await cache.set_many(dict.fromkeys(keys, "old"))
        theirs = next(key for key in keys if other.holds(key))
        other.stop()
        await eventually(model, lambda: cache.set(theirs, "new"), True)
        assert one.holds(theirs)
        other.restart()
        other.ask(b"set %s 16 0 3\r\nold\r\n" % theirs.encode(), b"STORED\r\n")
        await eventually(model, lambda: cache.get(theirs), "old")


async def test_a_server_that_dies_behind_a_proxy_is_no_dead_proxy(model: Model, connect: Connect) -> None:
    with Memcached() as one, Memcached() as other, Twemproxy(Pool(one, other, distribution="modula")) as proxy:
        cache = connect(proxy.address)
        keys = [f"key:{number}" for number in range(50)]
        await cache.set_many(dict.fromkeys(keys, 1))
        theirs = [key for key in keys if other.holds(key)]
        assert 0 < len(theirs) < len(keys)
        other.stop()
        for policy in ("raise", "miss"):
            with pytest.raises(pinyon.ServerError):
                await cache.using(on_failure=policy).get(theirs[0])
        left = [key for key in keys if key not in theirs]
        assert await cache.get_many(left) == dict.fromkeys(left, 1)


@contextlib.contextmanager
def a_proxy_of_memcacheds_own(*servers: Memcached) -> Iterator[MemcachedProxy]:
    executable = os.environ.get("MEMCACHED_PROXY", "memcached")
    help_text = subprocess.run([executable, "--help"], capture_output=True, text=True, check=True).stdout
    if "proxy_config" not in help_text:
        pytest.skip("memcached is built without its proxy: name one that has it in MEMCACHED_PROXY")
    with MemcachedProxy(executable, *servers) as proxy:
        yield proxy


async def test_everything_but_flush_all_works_through_memcacheds_own_proxy(model: Model, connect: Connect) -> None:
    events: list[pinyon.Event] = []
    with Memcached() as one, Memcached() as other, a_proxy_of_memcacheds_own(one, other) as proxy:
        cache = connect(proxy.address, on_event=events.append, encode_keys=True)
        await use_what_classic_text_allows(cache)
        assert await cache.set("a key", "value")
        assert await cache.gat("a key", 100) == "value"
        assert (await cache.get_with_ttl("a key"))[0] == "value"
        assert (await cache.meta("a key")).size == len("value")
        assert await cache.incr("counter", initial=1) == 1
        assert await cache.delete("a key", stale=10)
        assert await cache.get_or_set("made", lambda: "made", ttl=10) == "made"
        assert await cache.stats()
        with pytest.raises(REFUSED):
            await cache.flush_all()
        assert events == []


async def test_a_server_behind_memcacheds_own_proxy_dies_and_comes_back(model: Model, connect: Connect) -> None:
    with Memcached() as server, a_proxy_of_memcacheds_own(server) as proxy:
        cache = connect(proxy.address)
        assert await cache.set("key", "value")
        server.stop()
        with pytest.raises(pinyon.ServerError):
            await cache.get("key")
        server.restart()
        await eventually(model, lambda: cache.set("key", "value"), True)
