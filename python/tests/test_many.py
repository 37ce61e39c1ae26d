"""Operations on many keys: all at once, for any number of keys and servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from faulty import OlderServer
from servers import Memcached

import pinyon

MANY = 100_000


@pytest.fixture(scope="module")
def spacious() -> Iterator[list[Memcached]]:
    servers = [Memcached("-m", "512") for _ in range(4)]
    for server in servers:
        server.__enter__()
    yield servers
    for server in servers:
        server.stop()


@pytest.mark.parametrize("count", [1, 4])
def test_a_hundred_thousand_keys_in_one_call(spacious: list[Memcached], count: int) -> None:
    values = {f"key:{number}": number for number in range(MANY)}
    with pinyon.Client([server.address for server in spacious[:count]], timeout=30, connect_timeout=30) as client:
        assert client.set_many(values) == []
        assert client.get_many(values) == values
        assert client.delete_many(values) == MANY
        assert client.get_many(values) == {}


def test_a_hundred_thousand_keys_of_an_old_server(classic_server: OlderServer) -> None:
    values = {f"key:{number}": number for number in range(MANY)}
    with pinyon.Client(classic_server.address, timeout=30, connect_timeout=30) as client:
        assert client.set_many(values) == []
        assert client.get_many(values) == values
        assert client.delete_many(values) == MANY


def test_a_hundred_thousand_commands_in_one_batch(spacious: list[Memcached]) -> None:
    with pinyon.Client([server.address for server in spacious], timeout=30, connect_timeout=30) as client:
        with client.quiet() as batch:
            for number in range(MANY):
                batch.set(f"batch:{number}", number)
        keys = [f"batch:{number}" for number in range(MANY)]
        assert client.get_many(keys) == {key: number for number, key in enumerate(keys)}


@pytest.mark.parametrize("size", [100, 500, 600, 1000, 5000, 15_000, 20_000, 500_000])
@pytest.mark.parametrize("count", [1, 4])
def test_many_values_of_one_size_are_stored_and_read(spacious: list[Memcached], count: int, size: int) -> None:
    values = {f"key:{number}": b"%06d" % number * (size // 6) for number in range(max(50, min(1000, 2**21 // size)))}
    with pinyon.Client([server.address for server in spacious[:count]], timeout=60, connect_timeout=60) as client:
        assert client.set_many(values) == []
        assert client.get_many(values) == values


@pytest.mark.parametrize("size", [600, 5000, 200_000])
def test_many_values_of_one_size_are_stored_by_a_batch(client: pinyon.Client, size: int) -> None:
    values = {f"key:{number}": b"%06d" % number * (size // 6) for number in range(300)}
    with client.quiet() as batch:
        for key, value in values.items():
            batch.set(key, value)
    assert client.get_many(values) == values


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 127, 128, 129, 199, 200, 201, 4095, 4096, 4097, 10_000])
def test_no_number_of_keys_is_special(setting_of_four: pinyon.Client, client: pinyon.Client, count: int) -> None:
    values = {f"key:{number}": str(number) for number in range(count)}
    for each in (client, setting_of_four):
        assert each.set_many(values) == []
        assert each.get_many([*values, "missing"]) == values
        assert each.delete_many(values) == count


@pytest.fixture
def setting_of_four(four: list[Memcached]) -> Iterator[pinyon.Client]:
    with pinyon.Client([server.address for server in four], timeout=10, connect_timeout=10) as client:
        yield client


def test_keys_may_be_asked_twice_and_missed(setting_of_four: pinyon.Client) -> None:
    values = {f"key:{number}": number for number in range(250)}
    setting_of_four.set_many(values)
    asked = [key for number in range(250) for key in (f"key:{number}", f"missing:{number}", f"key:{number // 2}")]
    assert setting_of_four.get_many(asked) == values
    assert setting_of_four.get_many(["missing:1"] * 300) == {}
    assert setting_of_four.get_many(["key:1", b"key:1"]) == {"key:1": 1, b"key:1": 1}
    assert setting_of_four.delete_many(["key:1", "key:1", "key:2"]) == 2


def test_keys_that_begin_alike_are_told_apart(client: pinyon.Client) -> None:
    keys = ["a", "aa", "aaa", "ab", "b", "a:1", "a:11", "a:111"]
    client.set_many({key: key for key in keys[::2]})
    assert client.get_many([*keys, *reversed(keys)]) == {key: key for key in keys[::2]}


def test_any_iterable_of_keys_and_any_mapping_will_do(client: pinyon.Client) -> None:
    assert client.set_many(Counter("aab")) == []
    assert client.get_many(iter("ab")) == {"a": 2, "b": 1}
    assert client.get_many({"a", "b"}) == {"a": 2, "b": 1}
    assert client.get_many(key for key in "abc") == {"a": 2, "b": 1}
    assert client.delete_many(dict.fromkeys("ab").keys()) == 2


def test_an_iterable_that_fails_leaves_the_client_usable(client: pinyon.Client) -> None:
    def keys() -> Iterator[str]:
        yield "one"
        raise RuntimeError("no more keys")

    for use in (client.get_many, client.delete_many):
        with pytest.raises(RuntimeError, match="no more keys"):
            use(keys())
    assert client.set("one", 1)


def test_the_order_of_the_keys_does_not_matter(client: pinyon.Client) -> None:
    values = {f"key:{number}": number for number in range(1000)}
    client.set_many(values)
    found = client.get_many(sorted(values, key=lambda key: key[::-1], reverse=True))
    assert found == values


@pytest.mark.parametrize("mapping", [None, 5, "text", [("key", 1)]])
def test_set_many_takes_a_mapping_alone(client: pinyon.Client, mapping: Any) -> None:
    with pytest.raises(TypeError):
        client.set_many(mapping)


def test_one_bad_key_or_value_stores_nothing(client: pinyon.Client) -> None:
    for mapping in ({"good": 1, "bad key": 2}, {"good": 1, "bad": object()}, {"good": 1, 5: 1}):
        with pytest.raises(pinyon.Error):
            client.set_many(mapping)
    assert client.get("good") is None
