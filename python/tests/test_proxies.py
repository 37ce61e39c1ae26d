"""Proxies: what twemproxy lets through, what it does not, and what finding out costs."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from faulty import Listener
from models import Model, every_model
from servers import Memcached, Pool, Twemproxy

import pinyon

pytestmark = [
    every_model,
    pytest.mark.skipif(not shutil.which("nutcracker"), reason="nutcracker is not installed"),
]


@pytest.fixture(scope="module", params=["ketama", "modula"])
def proxy(request: pytest.FixtureRequest) -> Iterator[Twemproxy]:
    with Memcached() as one, Memcached() as other, Twemproxy(Pool(one, other, distribution=request.param)) as proxy:
        yield proxy


Connect = Callable[..., Any]


async def test_what_classic_text_allows_works_through_a_proxy(proxy: Twemproxy, model: Model, connect: Connect) -> None:
    events: list[pinyon.Event] = []
    cache = connect(proxy.address, on_event=events.append, namespace=f"{model.name}:")
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
    assert [event.kind for event in events] == ["classic"]
    assert events[0].line.startswith(f"{proxy.address} refuses meta commands, as some proxies do")


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


async def test_a_server_that_dies_behind_a_proxy_is_no_dead_proxy(model: Model, connect: Connect) -> None:
    with Memcached() as one, Memcached() as other, Twemproxy(Pool(one, other, distribution="modula")) as proxy:
        cache = connect(proxy.address)
        keys = [f"key:{number}" for number in range(50)]
        await cache.set_many(dict.fromkeys(keys, 1))
        theirs = [key for key in keys if other.holds(key)]
        assert 0 < len(theirs) < len(keys)
        other.stop()
        with pytest.raises(pinyon.ServerError):
            await cache.get(theirs[0])
        left = [key for key in keys if key not in theirs]
        assert await cache.get_many(left) == dict.fromkeys(left, 1)
