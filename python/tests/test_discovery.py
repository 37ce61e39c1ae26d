"""Servers from a configuration endpoint that come and go, in every concurrency model."""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, SecureMemcached
from endpoint import Endpoint
from models import Model, every_model
from servers import Memcached

import pinyon

Connect = Callable[..., Any]
Make = Callable[..., Endpoint]

#: The interval between looks in these tests, in seconds.
OFTEN = 0.1
KEYS = [f"key:{number}" for number in range(100)]
VALUES = {key: f"value of {key}" for key in KEYS}


@pytest.fixture
def endpoint() -> Iterator[Make]:
    """Makes endpoints that end with the test."""
    with contextlib.ExitStack() as stack:

        def make(*servers: Any, **settings: Any) -> Endpoint:
            return stack.enter_context(Endpoint(servers, **settings))

        yield make


@pytest.fixture
def finding(connect: Connect) -> Connect:
    """Makes clients that use endpoints."""

    def make(*endpoints: Any, **settings: Any) -> Any:
        return connect(*endpoints, **{"discovery": "config", "discovery_interval": OFTEN, **settings})

    return make


def owners(servers: list[Memcached]) -> dict[str, str]:
    """The server of each key, according to a client with a list of all servers."""
    with pinyon.Client([server.address for server in servers], timeout=20, connect_timeout=20) as client:
        client.flush_all()
        client.set_many(VALUES)
        return {key: server.address for key in KEYS for server in servers if server.holds(key)}


async def store(client: Any, key: str) -> None:
    async with client.quiet() as batch:
        await batch.set(key, "new")


FIRST: dict[str, Callable[[Any, list[Memcached]], Any]] = {
    "get": lambda client, _: client.get("key:0"),
    "set": lambda client, _: client.set("key:0", "new"),
    "incr": lambda client, _: client.incr("count", initial=7),
    "get_many": lambda client, _: client.get_many(KEYS),
    "set_many": lambda client, _: client.set_many(VALUES),
    "delete_many": lambda client, _: client.delete_many(KEYS),
    "version": lambda client, _: client.version(),
    "stats": lambda client, _: client.stats(),
    "flush_all": lambda client, _: client.flush_all(),
    "quiet": lambda client, _: store(client, "key:0"),
}


@every_model
@pytest.mark.parametrize("first", FIRST)
async def test_the_first_operation_waits_for_the_servers(
    model: Model, finding: Connect, endpoint: Make, four: list[Memcached], first: str
) -> None:
    expected = {"get": "value of key:0", "set": True, "incr": 7, "get_many": VALUES, "set_many": [], "delete_many": 100}
    owners(four)
    client = finding(endpoint(*four))
    outcome = await FIRST[first](client, four)
    if first in ("version", "stats"):
        assert set(outcome) == {server.address for server in four}
    else:
        assert outcome == expected.get(first)


@every_model
async def test_keys_are_where_a_client_that_was_told_the_servers_has_them(
    model: Model, finding: Connect, endpoint: Make, four: list[Memcached]
) -> None:
    owners(four)
    client = finding(endpoint(*reversed(four)))
    assert [await client.get(key) for key in KEYS] == list(VALUES.values())
    assert await client.get_many(KEYS) == VALUES
    assert len(client.describe()) == 4


@every_model
async def test_a_change_under_load_loses_nothing_but_the_keys_that_move(
    model: Model, finding: Connect, endpoint: Make, four: list[Memcached], own_server: Memcached
) -> None:
    fleets = [four, [*four, own_server], four[1:], four]
    place = [owners(fleet) for fleet in fleets]
    for server in (*four, own_server):
        server.flush()
    directory, events = endpoint(*four), []
    client = finding(directory, on_event=events.append)
    assert await client.set_many(VALUES) == []
    over, asked = False, 0

    async def read(first: int) -> None:
        nonlocal asked
        while not over:
            for number in range(100):
                key = KEYS[(first + number) % 100]
                asked += 1
                assert await client.get(key) in (VALUES[key], None)
            assert set((await client.get_many(KEYS)).items()) <= set(VALUES.items())

    async def under_load() -> None:
        enough = asked + 400
        await model.until(lambda: asked >= enough)

    readers = [model.spawn(read(7 * number)) for number in range(8)]
    for before, after, servers in zip(place, place[1:], fleets[1:]):
        await under_load()
        changes = len([event for event in events if event.kind == "servers"])
        directory.change(servers)
        await model.until(lambda changes=changes: len([each for each in events if each.kind == "servers"]) > changes)
        stayed = {key: VALUES[key] for key in KEYS if before[key] == after[key]}
        assert 20 < len(stayed) < 100
        found = await client.get_many(KEYS)
        assert {key: found.get(key) for key in stayed} == stayed
        moved = {key: VALUES[key] for key in KEYS if key not in found}
        assert await client.set_many(moved) == []
        assert await client.get_many(KEYS) == VALUES
    await under_load()
    over = True
    for reader in readers:
        await model.join(reader)
    assert {event.kind for event in events} == {"servers"}


@every_model
async def test_connections_to_servers_that_left_are_closed(
    model: Model, finding: Connect, endpoint: Make, four: list[Memcached], own_server: Memcached
) -> None:
    directory = endpoint(own_server, *four[1:])
    client = finding(directory)
    await client.set_many(VALUES)
    assert own_server.has_connections(1)
    directory.change(four[1:])
    while len(client.describe()) == 4:
        await model.sleep(0.02)
        await client.get(KEYS[0])
    assert await client.set_many(VALUES) == []
    assert own_server.has_connections(0)


NONSENSE = {
    "no endpoint": (b"ERROR\r\n", pinyon.ServerError, "no configuration endpoint"),
    "no cluster": (b"END\r\n", pinyon.ServerError, "knows of no cluster"),
    "another reply": (b"HTTP/1.1 400 Bad Request\r\n\r\n", pinyon.ProtocolError, "expected CONFIG"),
    "no number": (b"CONFIG cluster 0 5\r\nhello\r\nEND\r\n", pinyon.ProtocolError, "makes no sense.*not a number"),
    "no servers": (b"CONFIG cluster 0 2\r\n1\n\r\nEND\r\n", pinyon.ProtocolError, "makes no sense.*no servers"),
    "no address": (b"CONFIG cluster 0 4\r\n1\na|\r\nEND\r\n", pinyon.ProtocolError, r"\"a\|\" is not host\|ip\|port"),
    "a huge one": (b"CONFIG cluster 0 99999999\r\n1\n", pinyon.ValueTooLarge, "99999999"),
    "silence": (b"", pinyon.Timeout, "did not answer in time|no answer has come in time"),
}


@every_model
@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_an_endpoint_that_talks_nonsense_is_named_and_believed_once_it_makes_sense(
    model: Model, finding: Connect, endpoint: Make, server: Memcached, nonsense: str
) -> None:
    answer, kind, message = NONSENSE[nonsense]
    directory = endpoint(server)
    directory.answer = answer
    client = finding(directory, timeout=0.3 if nonsense == "silence" else 30)
    with pytest.raises(kind, match=message) as raised:
        await client.get("key")
    assert raised.value.server == directory.address
    assert raised.value.command == "get"
    assert nonsense == "silence" or "name a configuration endpoint" in str(raised.value)
    with pytest.raises(pinyon.Error):
        await client.get_many(["key"])
    directory.answer = None
    assert await model.eventually(lambda: client.set("key", "value"))
    assert await model.eventually(lambda: client.get("key")) == "value"


@every_model
async def test_without_an_endpoint_the_servers_known_last_stay_in_use(
    model: Model, finding: Connect, endpoint: Make, four: list[Memcached]
) -> None:
    directory, events = endpoint(*four), []
    client = finding(directory, on_event=events.append)
    assert await client.set_many(VALUES) == []
    directory.close()
    while "discovery" not in [event.kind for event in events]:
        assert await client.get_many(KEYS) == VALUES
        await model.sleep(0.01)
    lost = next(event for event in events if event.kind == "discovery")
    assert lost.server == directory.address
    assert "cannot find the servers" in str(lost.error)


@every_model
async def test_another_endpoint_is_asked_where_one_is_dead(
    model: Model, finding: Connect, endpoint: Make, server: Memcached
) -> None:
    client = finding("127.0.0.1:1", endpoint(server))
    assert await client.set("key", "value")
    with pytest.raises(pinyon.ConnectError, match="cannot find the servers") as raised:
        await finding("127.0.0.1:1").get("key")
    assert raised.value.server == "127.0.0.1:1"


@every_model
async def test_who_is_in_the_place_of_a_dead_server_is_found_before_its_time(
    model: Model, finding: Connect, endpoint: Make, four: list[Memcached], own_server: Memcached
) -> None:
    directory = endpoint(*four[:2], own_server)
    client = finding(directory, discovery_interval=3600, failover=False)
    assert await client.set_many(VALUES) == []
    own_server.stop()
    directory.change(four[:3])
    assert await model.eventually(lambda: client.set_many(VALUES)) == []
    assert await client.get_many(KEYS) == VALUES
    assert directory.asked < 8


@every_model
async def test_a_list_that_is_older_than_the_one_known_counts_when_it_comes_twice(
    model: Model, finding: Connect, endpoint: Make, four: list[Memcached]
) -> None:
    directory = endpoint(*four)
    directory.change(four, version=9)
    client = finding(directory)
    await client.get("key")
    directory.change(four[:2], version=8)
    asked = directory.asked
    while len(client.describe()) == 4:
        await client.get("key")
        await model.sleep(0.01)
    assert directory.asked >= asked + 2


@every_model
async def test_policies_hold_while_nobody_knows_the_servers(model: Model, finding: Connect, endpoint: Make) -> None:
    client = finding("127.0.0.1:1", on_failure="miss")
    assert await client.get("key", "default") == "default"
    assert await client.get_many(KEYS) == {}
    assert await client.set("key", 1) is False


@every_model
async def test_a_long_list_is_read(model: Model, finding: Connect, endpoint: Make, four: list[Memcached]) -> None:
    directory = endpoint()
    names = " ".join(f"{number:0100}.example|127.0.0.1|{four[number % 4].port}" for number in range(400))
    directory.listing = f"1\n{names}\n".encode()
    client = finding(directory)
    assert await client.set_many(VALUES) == []
    assert await client.get_many(KEYS) == VALUES
    assert len(client.describe()) == 400


def test_a_forked_child_looks_for_itself(endpoint: Make, four: list[Memcached]) -> None:
    directory = endpoint(*four)
    settings: dict[str, Any] = {"discovery": "config", "discovery_interval": OFTEN}
    with pinyon.Client(directory.address, timeout=20, connect_timeout=20, **settings) as client:
        client.set_many(VALUES)
        asked = directory.asked
        child = os.fork()
        if child == 0:
            until = time.monotonic() + 10 * OFTEN
            right = [client.get_many(KEYS) == VALUES for _ in iter(lambda: time.monotonic() < until, False)]
            os._exit(0 if all(right) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert directory.asked > asked
        assert client.get_many(KEYS) == VALUES


def test_endpoint_and_servers_speak_tls(certificates: Path, endpoint: Make) -> None:
    authority = Authority(certificates, "discovery")
    shown = authority.issue("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    tls = pinyon.Tls(ca=authority.file)
    with SecureMemcached(shown) as server, SecureMemcached(shown) as other:
        directory = endpoint(server, other, tls=context)
        with pinyon.Client(directory.address, discovery="config", tls=tls, timeout=20, connect_timeout=20) as client:
            assert client.set_many(VALUES) == []
            assert client.get_many(KEYS) == VALUES
        plain = pinyon.Client(directory.address, discovery="config", timeout=5, connect_timeout=5)
        with plain as client, pytest.raises(pinyon.Error, match="TLS") as raised:
            client.get("key")
        assert raised.value.server == directory.address


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"discovery": "aws"}, '"config" or "dns"'),
        ({"discovery": "config", "discovery_interval": 0}, "discovery_interval must be a positive number"),
        ({"discovery": "dns", "servers": "/run/memcached.sock"}, "give hosts for discovery, not paths"),
        (
            {"discovery": "config", "servers": "cache.example:11211:3"},
            "cache.example:11211 has a weight, but holds no keys: leave out the :3",
        ),
    ],
)
def test_misuse_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(pinyon.UsageError, match=message):
        pinyon.Client(settings.pop("servers", "127.0.0.1"), **settings)
