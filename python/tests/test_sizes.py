"""Values of every size, up to the limits and beyond."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faulty import OlderServer
from models import Model, every_model
from servers import Memcached

import pinyon

KIB = 1024
MIB = 1024 * KIB
LARGE = 16 * KIB
BUFFER = 64 * KIB
SIZES = [0, 1, *(at + off for at in (LARGE, BUFFER, 4 * BUFFER, MIB) for off in (-2, -1, 0, 1, 2))]
BODY = bytes(range(256)) * (MIB // 128)


@pytest.fixture(scope="module")
def roomy_classic(roomy: Memcached) -> Iterator[OlderServer]:
    with OlderServer(roomy, "1.4.15") as proxy:
        yield proxy


@pytest.fixture(scope="module", params=["roomy", "roomy_classic"])
def large(request: pytest.FixtureRequest) -> Iterator[pinyon.Client]:
    address = request.getfixturevalue(request.param).address
    with pinyon.Client(address, timeout=10, connect_timeout=10, max_value_size=32 * MIB) as client:
        yield client


@pytest.mark.parametrize("size", SIZES)
def test_a_value_of_any_size_comes_back(large: pinyon.Client, size: int) -> None:
    value = BODY[:size]
    assert large.set("key", value)
    large.set("after", "after")
    assert large.get("key") == value
    assert large.get("after") == "after"
    assert large.gets("key")[0] == value
    assert large.get_many(["key", "missing", "after"]) == {"key": value, "after": "after"}
    text = "ä" * (size // 2)
    large.set("text", text)
    assert large.get("text") == text


@pytest.mark.parametrize("size", SIZES)
def test_a_value_of_any_size_is_stored_by_every_way_of_storing(large: pinyon.Client, size: int) -> None:
    value = BODY[:size]
    assert large.set_many({"one": value, "two": value[::-1]}) == []
    with large.quiet() as batch:
        batch.set("three", value)
        batch.set("four", "small")
    assert large.get_many(["one", "two", "three", "four"]) == {
        "one": value,
        "two": value[::-1],
        "three": value,
        "four": "small",
    }


def test_a_value_of_twenty_megabytes_comes_back(large: pinyon.Client) -> None:
    value = BODY * 10
    assert large.set("key", value)
    assert large.get("key") == value


@pytest.mark.parametrize("filler", [b"", b"x" * LARGE, b"x" * BUFFER], ids=["small", "large", "huge"])
@pytest.mark.parametrize(
    "lookalike", [b"\r\n", b"END\r\n", b"\r\nEND\r\nVALUE other 0 1\r\nx\r\nEND\r\n", b"HD O0\r\nEN\r\n"]
)
def test_a_value_that_looks_like_a_reply_is_a_value(large: pinyon.Client, lookalike: bytes, filler: bytes) -> None:
    value = lookalike + filler + lookalike
    large.set_many({"key": value, "after": b"\r\n"})
    assert large.get("key") == value
    assert large.get_many(["key", "after"]) == {"key": value, "after": b"\r\n"}


def test_one_byte_over_the_clients_limit_is_refused_and_nothing_lost(client: pinyon.Client, server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, max_value_size=1000) as limited:
        assert limited.set("key", b"x" * 1000)
        over = b"y" * 1001
        for store in (limited.set, limited.add, limited.replace, limited.append, limited.prepend):
            with pytest.raises(pinyon.ValueTooLarge, match=r"1001 bytes.*\(max_value_size\) of 1000") as raised:
                store("key", over)
            assert isinstance(raised.value, ValueError)
            assert raised.value.sent == "no"
        with pytest.raises(pinyon.ValueTooLarge):
            limited.cas("key", over, limited.gets("key")[1])
        with pytest.raises(pinyon.ValueTooLarge, match=r"'key'.*nothing was stored"):
            limited.set_many({"other": b"", "key": over})
        assert limited.get_many(["key", "other"]) == {"key": b"x" * 1000}


def test_a_value_over_the_limit_does_not_spoil_a_batch(client: pinyon.Client, server: Memcached) -> None:
    def run(limited: pinyon.Client) -> None:
        with limited.quiet() as batch:
            batch.set("before", 1)
            batch.set("key", b"y" * 1001)

    with pinyon.Client(server.address, timeout=10, connect_timeout=10, max_value_size=1000) as limited:
        limited.set("key", "old")
        with pytest.raises(pinyon.ValueTooLarge):
            run(limited)
        assert limited.get_many(["before", "key"]) == {"before": 1, "key": "old"}


def test_a_stored_value_over_the_limit_is_not_read(client: pinyon.Client, server: Memcached) -> None:
    client.set("key", b"x" * 200_000)
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, max_value_size=1000) as limited:
        for read in (limited.get, limited.gets, lambda key: limited.get_many([key, "small"])):
            with pytest.raises(pinyon.ValueTooLarge, match=r"200000 bytes.*\(max_value_size\) of 1000"):
                read("key")
        limited.set("small", 1)
        assert limited.get("small") == 1


def test_what_the_server_finds_too_large_is_an_error_of_its_own(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, max_value_size=8 * MIB) as client:
        with pytest.raises(pinyon.ValueTooLarge, match="object too large for cache") as raised:
            client.set("key", b"x" * 2 * MIB)
        assert (raised.value.sent, raised.value.command, raised.value.server) == ("yes", "set", server.address)
        assert client.set("key", "small")
        assert client.get("key") == "small"


@pytest.mark.parametrize("count", [20, 2000])
@every_model
async def test_of_many_values_those_that_the_server_refuses_are_told_and_no_others(
    model: Model, server: Memcached, connect: Callable[..., Any], count: int
) -> None:
    values = {f"key:{number}": number for number in range(count)}
    large = {"large": b"x" * 2 * MIB, f"key:{count // 2}": b"x" * 2 * MIB}
    client = connect(server, timeout=20, connect_timeout=20, max_value_size=8 * MIB)
    assert set(await client.set_many({**values, **large}, ttl=60)) == set(large)
    stored = {key: value for key, value in values.items() if key not in large}
    assert await client.get_many([*values, "large"]) == stored
    assert await client.set_many(dict.fromkeys(large, "small")) == []


def test_the_server_refusing_one_value_of_a_batch_is_told(server: Memcached) -> None:
    def run(client: pinyon.Client) -> None:
        with client.quiet() as batch:
            batch.set("before", 1)
            batch.set("large", b"x" * 2 * MIB)
            batch.set("after", 2)

    with pinyon.Client(server.address, timeout=10, connect_timeout=10, max_value_size=8 * MIB) as client:
        with pytest.raises(pinyon.BatchError, match="too large") as raised:
            run(client)
        assert "large" in {failure.key for failure in raised.value.failures}
        assert all(isinstance(failure.error, pinyon.ValueTooLarge) for failure in raised.value.failures)
        assert client.get_many(["before", "large", "after"]) == {"before": 1, "after": 2}
