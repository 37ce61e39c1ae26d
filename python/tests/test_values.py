"""Values keep their type with every serializer; types that cannot be kept are refused."""

from __future__ import annotations

import datetime
import enum
import math
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import Memcached

import pinyon

settings.register_profile("pinyon", deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)
settings.load_profile("pinyon")

INTEGERS = st.integers(-(2**63), 2**64 - 1)
DATETIMES = st.datetimes() | st.datetimes(
    min_value=datetime.datetime(2, 1, 1), max_value=datetime.datetime(9998, 1, 1), timezones=st.timezones()
)
JSON_SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text()
SCALARS = JSON_SCALARS | st.binary() | st.floats(allow_nan=False)
KEYS = st.text() | st.binary() | INTEGERS


def nested(scalars: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(scalars, lambda some: st.lists(some) | st.dictionaries(keys, some), max_leaves=20)


def same(one: Any, other: Any) -> bool:
    """Whether they are equal, including all inner types."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, list):
        return all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one), list(other)) and all(same(one[key], other[key]) for key in one)
    return True


def clients(server: Memcached, serializer: Any) -> pinyon.Client:
    return pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=serializer)


@pytest.fixture(scope="module", params=["portable", "pickle", "json"])
def any_client(request: pytest.FixtureRequest, memcached: Memcached) -> Iterator[pinyon.Client]:
    with clients(memcached, request.param) as client:
        yield client


@pytest.fixture(scope="module")
def portable(memcached: Memcached) -> Iterator[pinyon.Client]:
    with clients(memcached, "portable") as client:
        yield client


@given(value=nested(SCALARS | st.datetimes(), KEYS))
def test_plain_data_comes_back_as_it_was(portable: pinyon.Client, value: Any) -> None:
    portable.set("key", value)
    assert same(portable.get("key"), value)
    assert same(portable.get_many(["key"])["key"], value)


@given(value=DATETIMES)
def test_a_datetime_keeps_its_instant(portable: pinyon.Client, value: datetime.datetime) -> None:
    portable.set("key", [value])
    read = portable.get("key")[0]
    assert (read.tzinfo is None) == (value.tzinfo is None)
    assert (
        read.astimezone(datetime.timezone.utc) == value.astimezone(datetime.timezone.utc)
        if value.tzinfo
        else read == value
    )


@given(value=nested(JSON_SCALARS, st.text()))
def test_what_json_can_say_comes_back_from_every_serializer(any_client: pinyon.Client, value: Any) -> None:
    any_client.set("key", value)
    assert same(any_client.get("key"), value)


@given(value=st.binary() | st.text() | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False))
def test_a_single_value_comes_back_from_every_serializer(any_client: pinyon.Client, value: Any) -> None:
    any_client.set("key", value)
    assert same(any_client.get("key"), value)
    with any_client.quiet() as batch:
        batch.set("other", value)
    any_client.set_many({"third": value})
    assert all(same(read, value) for read in any_client.get_many(["key", "other", "third"]).values())


def test_a_bool_stays_a_bool(any_client: pinyon.Client) -> None:
    any_client.set_many({"yes": True, "no": False, "one": 1, "nested": [True, 1, 1.0]})
    assert any_client.get("yes") is True
    assert any_client.get("no") is False
    assert type(any_client.get("one")) is int
    assert same(any_client.get("nested"), [True, 1, 1.0])


def test_special_floats_come_back(any_client: pinyon.Client) -> None:
    any_client.set_many({"infinite": -math.inf, "nan": math.nan, "zero": -0.0})
    assert any_client.get("infinite") == -math.inf
    assert math.isnan(any_client.get("nan"))
    assert math.copysign(1, any_client.get("zero")) == -1


class Colour(enum.IntEnum):
    RED = 1


class Label(str):
    __slots__ = ()


UNPORTABLE = [
    (1, 2),
    {1, 2},
    frozenset(),
    object(),
    1j,
    datetime.date(2024, 1, 1),
    Colour.RED,
    Label("x"),
    bytearray(b"x"),
]


@pytest.mark.parametrize("nest", [lambda value: value, lambda value: [{"deep": value}]], ids=["alone", "nested"])
@pytest.mark.parametrize("value", UNPORTABLE, ids=lambda value: type(value).__name__)
def test_what_is_not_portable_is_refused_by_name(client: pinyon.Client, value: Any, nest: Any) -> None:
    client.set("key", "old")
    with pytest.raises(TypeError, match=rf'{type(value).__name__}.*serializer="pickle"') as raised:
        client.set("key", nest(value))
    assert isinstance(raised.value, pinyon.UnsupportedType)
    with pytest.raises(pinyon.UnsupportedType):
        client.set_many({"other": 1, "key": nest(value)})
    assert client.get_many(["key", "other"]) == {"key": "old"}


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**40])
def test_integers_of_any_size_stand_alone_and_nested_ones_say_what_to_do(client: pinyon.Client, number: int) -> None:
    client.set("key", number)
    assert client.get("key") == number
    with pytest.raises(pinyon.UnsupportedType, match="64 bits"):
        client.set("key", [number])


@pytest.mark.parametrize("serializer", ["portable", "json", "pickle"])
def test_a_value_that_cannot_be_written_is_refused(server: Memcached, serializer: str) -> None:
    endless: list[Any] = []
    endless.append(endless)
    unwritable = (lambda: None) if serializer == "pickle" else endless
    with clients(server, serializer) as client:
        with pytest.raises(pinyon.UnsupportedType) as refused:
            client.set("key", unwritable)
        assert isinstance(refused.value, pickle.PicklingError) == (serializer == "pickle")
        assert client.set("key", "fine")


@pytest.mark.parametrize("serializer", ["portable", "json", "pickle"])
def test_text_that_utf8_cannot_express_is_refused(server: Memcached, serializer: str) -> None:
    with clients(server, serializer) as client:
        for value in ("\ud800", ["\ud800"]):
            if serializer == "pickle" and isinstance(value, list):
                continue
            with pytest.raises((ValueError, TypeError), match="lone surrogate"):
                client.set("key", value)
        assert client.set("key", "fine")


def test_pickle_takes_what_portable_refuses(server: Memcached) -> None:
    with clients(server, "pickle") as client:
        for value in [(1, [2]), {1, 2}, 1j, datetime.date(2024, 1, 1), Colour.RED, Label("x")]:
            client.set("key", value)
            assert same(client.get("key"), value)


@pytest.mark.parametrize("value", [(1, 2), {1: "number"}, {"deep": [(1,)]}], ids=repr)
def test_json_does_not_change_a_type_silently(server: Memcached, value: Any) -> None:
    with clients(server, "json") as client:
        try:
            client.set("key", value)
        except pinyon.UnsupportedType:
            return
        assert same(client.get("key"), value)


@pytest.mark.parametrize("value", ["text", 1, None, [b"x"], bytearray(b"x")], ids=repr)
def test_raw_takes_bytes_alone(server: Memcached, value: Any) -> None:
    with clients(server, "raw") as client:
        with pytest.raises(TypeError, match=f'"raw" takes bytes, not {type(value).__name__}'):
            client.set("key", value)
        client.set("key", b"\x00\xff")
        assert client.get("key") == b"\x00\xff"


def test_raw_reads_whatever_the_flags_say(server: Memcached, client: pinyon.Client) -> None:
    client.set_many({"text": "text", "number": 5})
    with clients(server, "raw") as raw:
        assert raw.get_many(["text", "number"]) == {"text": b"text", "number": b"5"}


def store(server: Memcached, flags: int, value: bytes) -> None:
    server.ask(b"set key %d 0 %d\r\n%s\r\n" % (flags, len(value), value), b"STORED\r\n")


@pytest.mark.parametrize(
    ("flags", "hint"),
    [(1, 'the serializer "pickle"'), (8, "another client, .*dialect"), (512, "JSON"), (4096, "another client")],
)
def test_unknown_flags_are_an_error_with_a_hint(
    client: pinyon.Client, server: Memcached, flags: int, hint: str
) -> None:
    store(server, flags, b"whatever")
    for read in (client.get, client.gets, lambda key: client.get_many([key]), lambda key: client.gat(key, 0)):
        with pytest.raises(pinyon.UnknownFlags, match=f"flags {flags}: .*{hint}"):
            read("key")
    client.set("key", "mine")
    assert client.get("key") == "mine"


@pytest.mark.parametrize(("flags", "value"), [(2, b"five"), (2, b""), (16, b"\xff"), (256, b"\xc1"), (256, b"")])
def test_a_value_that_is_not_what_its_flags_say_is_an_error(
    client: pinyon.Client, server: Memcached, flags: int, value: bytes
) -> None:
    store(server, flags, value)
    with pytest.raises(pinyon.UndecodableValue) as raised:
        client.get("key")
    assert isinstance(raised.value, ValueError)
    with pytest.raises(pinyon.UndecodableValue):
        client.get_many(["key"])
    assert client.set("key", "fine")
    assert client.get("key") == "fine"


@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_what_cannot_be_loaded_is_an_error(server: Memcached, serializer: str) -> None:
    store(server, {"pickle": 1, "json": 512}[serializer], b"\x80nonsense")
    with clients(server, serializer) as client, pytest.raises(pinyon.UndecodableValue):
        client.get("key")
