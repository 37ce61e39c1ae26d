"""Plain values can be exchanged with pymemcache and pylibmc without any setting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pylibmc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymemcache.client.base import Client as Pymemcache
from pymemcache.serde import pickle_serde
from servers import Memcached

import pinyon

PLAIN = [
    b"",
    b"\x00\r\n\xff",
    b"x" * 100_000,
    "",
    "text",
    "größer 🌲",
    "\r\nEND\r\n",
    0,
    7,
    -7,
    2**63,
    -(2**63),
    10**30,
]
VALUES = st.binary() | st.text() | st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module", params=["pymemcache", "pylibmc"])
def other(request: pytest.FixtureRequest, memcached: Memcached) -> Iterator[Any]:
    if request.param == "pylibmc":
        yield pylibmc.Client([memcached.address])
    else:
        client = Pymemcache((memcached.host, memcached.port), serde=pickle_serde, default_noreply=False, no_delay=True)
        yield client
        client.close()


@pytest.fixture(scope="module")
def ours(memcached: Memcached) -> Iterator[pinyon.Client]:
    with pinyon.Client(memcached.address, timeout=10, connect_timeout=10) as client:
        yield client


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:20])
def test_others_read_what_pinyon_wrote(ours: pinyon.Client, other: Any, value: Any) -> None:
    ours.set("key", value)
    read = other.get("key")
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:20])
def test_pinyon_reads_what_others_wrote(ours: pinyon.Client, other: Any, value: Any) -> None:
    assert other.set("key", value)
    for read in (ours.get("key"), ours.get_many(["key"])["key"], ours.gets("key")[0]):
        assert read == value
        assert type(read) is type(value)


@given(value=VALUES)
def test_any_plain_value_is_exchanged_both_ways(ours: pinyon.Client, other: Any, value: Any) -> None:
    ours.set("ours", value)
    other.set("theirs", value)
    assert other.get("ours") == ours.get("theirs") == value


def test_counters_are_shared(ours: pinyon.Client, other: Any) -> None:
    ours.set("count", 5)
    assert other.incr("count", 3) == 8
    assert ours.incr("count") == 9
    assert other.get("count") == 9
    other.set("count", 100)
    assert ours.decr("count", 99) == 1
    assert ours.get("count") == 1


def test_objects_are_exchanged_by_pickle(memcached: Memcached, other: Any) -> None:
    value = {"tuple": (1, 2), "set": {3}}
    with pinyon.Client(memcached.address, timeout=10, connect_timeout=10, serializer="pickle") as ours:
        ours.set("ours", value)
        other.set("theirs", value)
        assert other.get("ours") == ours.get("theirs") == value


def test_an_object_of_others_is_never_unpickled_unasked(ours: pinyon.Client, other: Any) -> None:
    other.set("key", (1, 2))
    with pytest.raises(pinyon.UnknownFlags, match='the serializer "pickle"'):
        ours.get("key")


def test_servers_are_chosen_as_pylibmc_chooses_them(four: list[Memcached]) -> None:
    addresses = [server.address for server in four]
    weighted = pylibmc.Client(addresses, behaviors={"ketama_weighted": True, "hash": "md5"})
    values = {f"key:{number}": number for number in range(500)}
    with pinyon.Client(addresses, timeout=10, connect_timeout=10) as ours:
        weighted.set_multi(values)
        assert ours.get_many(values) == values
        assert all(ours.get(key) == value for key, value in values.items())
    assert all(server.statistic("curr_items") > 50 for server in four)
