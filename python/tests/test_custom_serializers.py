"""A serializer of the user's own, and one that fails."""

from __future__ import annotations

from typing import Any

import pytest
from servers import Memcached

import pinyon
from pinyon.serializers import Portable


class Reversing:
    """Stores text backwards, with flags of its own."""

    def dump(self, value: Any) -> tuple[bytes, int]:
        return str(value)[::-1].encode(), 2**32 - 1

    def load(self, data: bytes, flags: int) -> Any:
        assert flags == 2**32 - 1
        return data.decode()[::-1]


class Tuples(Portable):
    """Also accepts tuples, and reads them as lists."""

    def dump(self, value: Any) -> tuple[bytes, int]:
        return super().dump(list(value) if isinstance(value, tuple) else value)

    def load(self, data: bytes, flags: int) -> Any:
        return {"loaded": super().load(data, flags)}


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.fails = False

    def dump(self, value: Any) -> tuple[bytes, int]:
        self._fail()
        return value, 0

    def load(self, data: bytes, flags: int) -> Any:
        self._fail()
        return data

    def _fail(self) -> None:
        if self.fails:
            raise self.error


def test_a_custom_serializer_handles_every_value(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Reversing()) as client:
        client.set_many({"text": "abc", "number": 123})
        assert client.get_many(["text", "number"]) == {"text": "abc", "number": "123"}
        assert client.gets("text")[0] == "abc"
        assert client.meta("number").flags == 2**32 - 1
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer="raw") as raw:
        assert raw.get("text") == b"cba"


def test_a_serializer_made_of_another_keeps_its_own_methods(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Tuples()) as client:
        client.set("key", (1, "two"))
        assert client.get("key") == {"loaded": [1, "two"]}


@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt()], ids=["exception", "interrupt"])
def test_a_failing_serializer_leaves_the_client_usable(server: Memcached, error: BaseException, size: int) -> None:
    serializer = Failing(error)
    values = {f"key:{number}": b"%d" % number * size for number in range(5)}
    with pinyon.Client(server.address, timeout=60, connect_timeout=60, serializer=serializer) as client:
        for key, value in values.items():
            client.set(key, value)
        serializer.fails = True
        for attempt in (
            lambda: client.get("key:0"),
            lambda: client.get_many(values),
            lambda: client.set("key:0", b"lost"),
            lambda: client.set_many(dict.fromkeys(values, b"lost")),
        ):
            with pytest.raises(type(error)):
                attempt()
        serializer.fails = False
        assert client.get_many(values) == values
        assert [client.get(key) for key in values] == list(values.values())


@pytest.mark.parametrize(
    "dumped", ["text", b"bytes", (b"x",), ("text", 0), (b"x", -1), (b"x", 2**32), (b"x", "0"), None]
)
def test_a_dump_that_returns_nonsense_is_refused(server: Memcached, dumped: Any) -> None:
    class Nonsense:
        def dump(self, value: Any) -> Any:
            return dumped

        def load(self, data: bytes, flags: int) -> Any:
            return data

    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Nonsense()) as client:
        with pytest.raises(pinyon.UnsupportedType, match=r"must return \(bytes, flags\)"):
            client.set("key", 1)
        assert client.get("key") is None


def test_a_serializer_may_use_the_client(server: Memcached) -> None:
    class Counting:
        client: pinyon.Client

        def dump(self, value: Any) -> tuple[bytes, int]:
            return value, 0

        def load(self, data: bytes, flags: int) -> Any:
            return data, self.client.incr("loads", initial=1)

    serializer = Counting()
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=serializer) as client:
        serializer.client = client
        client.set_many({"one": b"1", "two": b"2"})
        assert client.get("one") == (b"1", 1)
        assert sorted(client.get_many(["one", "two"]).values()) == [(b"1", 2), (b"2", 3)]


@pytest.mark.parametrize("serializer", ["msgpack", "", None, object(), 5])
def test_what_is_no_serializer_is_refused(serializer: Any) -> None:
    kind = pinyon.UsageError if isinstance(serializer, str) else pinyon.UnsupportedType
    with pytest.raises(kind, match="serializer"):
        pinyon.Client("127.0.0.1", serializer=serializer)
