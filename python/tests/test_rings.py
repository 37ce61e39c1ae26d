"""Named rings put keys where the clients they are from put them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endpoint import Endpoint
from models import Model, every_model
from other_rings import page
from other_rings.comparing import RINGS, Ring, compare
from servers import Memcached

import pinyon

Connect = Callable[..., Any]

NAMES = [ring.name for ring in RINGS]
KEYS = [f"key:{number}" for number in range(60)]


@pytest.mark.parametrize("ring", RINGS, ids=NAMES)
def test_keys_are_where_the_other_client_puts_them(ring: Ring, tmp_path: Path) -> None:
    compared = 0
    for case in ring.cases(tmp_path):
        elsewhere = compare(ring, case)
        assert elsewhere == [], f"{case.fleet.name}, down: {case.dead}"
        compared += len(case.keys)
    assert ring.row(compared, 0) in page.rows(), "the table in docs/rings.md is out of date: make rings"


def test_the_page_has_every_ring() -> None:
    with pytest.raises(pinyon.UsageError, match='not "no-such-ring"') as raised:
        pinyon.Client("a", ring="no-such-ring")
    plain = [name for name in NAMES if ":" not in name]
    assert re.findall(r'"([\w-]+)"', str(raised.value)) == [*plain, "no-such-ring"]
    assert [re.findall(r"`([\w:-]+)`", row)[0] for row in page.rows()] == NAMES


@pytest.mark.parametrize("ring", RINGS, ids=NAMES)
def test_weights_are_refused_where_the_other_client_has_none(ring: Ring) -> None:
    if ring.weights == "refused":
        with pytest.raises(pinyon.UsageError, match='"b:11211"') as raised:
            pinyon.Client(["a", "b:11211:2"], ring=ring.name)
        assert f'the ring "{ring.name}" has no weights' in str(raised.value)
    else:
        pinyon.Client(["a", "b:11211:2"], ring=ring.name).close()


@every_model
@pytest.mark.parametrize("ring", ["libmemcached-modula", "dalli", "pymemcache"])
async def test_operations_go_where_the_ring_says(
    model: Model, connect: Connect, four: list[Memcached], ring: str
) -> None:
    client = connect(*four, ring=ring, namespace="n:")
    keys = [*KEYS[:20], *(key.encode() for key in KEYS[20:])]
    for key in keys[::2]:
        assert await client.set(key, "one")
    await client.set_many(dict.fromkeys(keys[1::2], "many"))
    for key in keys:
        text = key if isinstance(key, str) else key.decode()
        holders = [server.address for server in four if server.holds(f"n:{text}")]
        assert holders == client.servers_of(key)[:1]
    assert len(await client.get_many(keys)) == len(keys)
    async with client.quiet() as batch:
        for key in keys:
            await batch.delete(key)


@every_model
async def test_found_servers_have_the_ring(model: Model, connect: Connect, four: list[Memcached]) -> None:
    with Endpoint(four) as endpoint:
        client = connect(endpoint, ring="python-memcached", discovery="config")
        assert client.servers_of("key") == []
        await client.set_many(dict.fromkeys(KEYS, 1))
        told = connect(*sorted(four, key=lambda server: server.address), ring="python-memcached")
        assert await told.get_many(KEYS) == dict.fromkeys(KEYS, 1)
        assert all(client.servers_of(key) == told.servers_of(key) for key in KEYS)


@every_model
async def test_the_keys_of_a_server_that_is_down_go_where_the_ring_says(
    model: Model, connect: Connect, four: list[Memcached], own_server: Memcached
) -> None:
    client = connect(*four, own_server, ring="cache-memcached", connect_timeout=5)
    stays = connect(*four, own_server, ring="cache-memcached-fast", connect_timeout=5)
    keys = [key for key in KEYS if client.servers_of(key)[0] == own_server.address]
    assert keys
    assert [stays.servers_of(key) for key in keys] == [[own_server.address]] * len(keys)
    own_server.stop()
    for key in keys:
        assert await client.set(key, "elsewhere")
        holders = [server.address for server in four if server.holds(key)]
        assert holders == client.servers_of(key)[1:2]
    with pytest.raises((pinyon.ConnectError, pinyon.ServerDown)):
        await stays.get(keys[0])


def test_the_servers_of_a_key(four: list[Memcached]) -> None:
    addresses = {server.address for server in four}
    with pinyon.Client(sorted(addresses), gutter=["spare:1"]) as client:
        own = client.servers_of("key")[0]
        assert client.servers_of("key") == [own, "spare:1"]
        assert client.using(failover=False).servers_of("key") == [own]
        with pytest.raises(pinyon.InvalidKey):
            client.servers_of("no key")
    with pytest.raises(pinyon.Closed):
        client.servers_of("key")
    with pinyon.Client(sorted(addresses)) as client:
        assert set(client.servers_of("key")) == addresses
