"""Keys: valid ones, refused ones, and those encoded on request."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faulty import OlderServer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from servers import Memcached

import pinyon

CONTROL = [chr(code) for code in [*range(0x20), 0x7F]]


def uses(client: pinyon.Client, key: Any) -> list[Callable[[], Any]]:
    """Every way to use a key."""

    def batch() -> None:
        with client.quiet() as batch:
            batch.delete(key)

    return [
        lambda: client.get(key),
        lambda: client.gets(key),
        lambda: client.gat(key, 1),
        lambda: client.touch(key, 1),
        lambda: client.set(key, 1),
        lambda: client.add(key, 1),
        lambda: client.replace(key, 1),
        lambda: client.append(key, "1"),
        lambda: client.prepend(key, "1"),
        lambda: client.cas(key, 1, 1),
        lambda: client.delete(key),
        lambda: client.incr(key),
        lambda: client.decr(key),
        lambda: client.meta(key),
        lambda: client.get_many(["good", key]),
        lambda: client.set_many({"good": 1, key: 1}),
        lambda: client.delete_many(["good", key]),
        batch,
    ]


@pytest.fixture
def encoding(server: Memcached) -> Iterator[pinyon.Client]:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, encode_keys=True) as client:
        yield client


@pytest.mark.parametrize(
    "key", ["", b"", "a b", " ", "a\nb", "a\r\nflush_all\r\n", "k" * 251, "ä" * 126, b"\x00", "\x7f"]
)
def test_a_key_that_cannot_be_sent_is_refused_by_every_method(client: pinyon.Client, key: Any) -> None:
    for use in uses(client, key):
        with pytest.raises(pinyon.InvalidKey) as raised:
            use()
        assert isinstance(raised.value, ValueError)
        assert raised.value.sent == "no"
    assert client.get("good") is None


@pytest.mark.parametrize("character", CONTROL, ids=repr)
def test_every_control_byte_is_refused_by_its_place(client: pinyon.Client, character: str) -> None:
    with pytest.raises(pinyon.InvalidKey, match=rf"byte 0x{ord(character):02x} at position 3.*encode_keys"):
        client.set(f"key{character}", 1)


@pytest.mark.parametrize(
    "key", [5, None, 1.5, ("key",), bytearray(b"key"), object()], ids=lambda key: type(key).__name__
)
def test_a_key_that_is_neither_text_nor_bytes_is_refused(client: pinyon.Client, key: Any) -> None:
    for use in (lambda: client.get(key), lambda: client.set(key, 1), lambda: client.get_many([key])):
        with pytest.raises(pinyon.UnsupportedType, match=f"keys are str or bytes, not {type(key).__name__}") as raised:
            use()
        assert isinstance(raised.value, TypeError)


def test_text_that_utf8_cannot_express_is_no_key(client: pinyon.Client) -> None:
    for use in uses(client, "\ud800"):
        with pytest.raises(pinyon.InvalidKey):
            use()


@pytest.mark.parametrize("several", ["key", b"key"])
def test_one_key_is_not_taken_for_several(client: pinyon.Client, several: Any) -> None:
    for use in (client.get_many, client.delete_many):
        with pytest.raises(pinyon.UnsupportedType, match="iterable of keys, not one key"):
            use(several)
    with pytest.raises(TypeError):
        client.set_many(several)
    with pytest.raises(TypeError):
        client.get_many(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["k" * 250, "ä" * 125, "größe", "🌲", b"\xff\x80", "!~", "\u00a0"], ids=repr)
def test_every_other_key_is_sent_as_it_is(client: pinyon.Client, server: Memcached, key: Any) -> None:
    client.set(key, "value")
    assert client.get(key) == "value"
    assert client.get_many([key]) == {key: "value"}
    wire = key.encode() if isinstance(key, str) else key
    assert server.ask(b"get " + wire + b"\r\n", b"END\r\n") == b"VALUE " + wire + b" 16 5\r\nvalue\r\nEND\r\n"


def test_a_namespace_counts_towards_the_length(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, namespace="app:") as client:
        assert client.set("k" * 246, 1)
        assert server.holds("app:" + "k" * 246)
        for use in uses(client, "k" * 247):
            with pytest.raises(
                pinyon.InvalidKey, match="has 247 bytes and the namespace 4; memcached's limit for both together is 250"
            ):
                use()


def test_keys_come_back_without_their_namespace(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, namespace=b"app:") as client:
        client.set_many({"one": 1, b"two": 2})
        assert client.get_many(["one", b"two"]) == {"one": 1, b"two": 2}
        assert server.holds("app:one")
        assert not server.holds("one")


@pytest.mark.parametrize("namespace", ["n" * 251, "a b", "a\r\n", "\x00", "n" * 250])
def test_a_namespace_that_cannot_be_sent_is_refused(namespace: str) -> None:
    with pytest.raises(pinyon.InvalidKey, match="the namespace has "):
        pinyon.Client("127.0.0.1", namespace=namespace)
    with pytest.raises(TypeError):
        pinyon.Client("127.0.0.1", namespace=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["two words", "a\nb", "\x00", "a b" * 100, "k" * 300, b"\r\n", "sha256:" + "0" * 64])
def test_encoded_keys_can_be_anything(encoding: pinyon.Client, key: Any) -> None:
    encoding.set(key, "value")
    assert encoding.get(key) == "value"
    assert encoding.get_many(["plain", key, "k"]) == {key: "value"}
    assert encoding.meta(key).size == 5
    assert encoding.set_many({key: 5, "plain": 6}) == []
    assert encoding.get_many(["plain", key]) == {key: 5, "plain": 6}
    assert encoding.incr(key) == 6
    assert encoding.touch(key, 60)
    with encoding.quiet() as batch:
        batch.append(key, b"0")
    assert encoding.gets(key)[0] == 60
    assert encoding.delete_many([key, "plain"]) == 2


def test_an_empty_key_is_refused_even_where_keys_are_encoded(encoding: pinyon.Client) -> None:
    for use in uses(encoding, ""):
        with pytest.raises(pinyon.InvalidKey, match='the key "" is empty'):
            use()


@pytest.mark.parametrize("namespace", ["", "app:"])
def test_what_is_sent_for_an_encoded_key_is_another_key(server: Memcached, namespace: str) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, encode_keys=True, namespace=namespace) as client:
        client.set_many({"a b": "base64", "k" * 300: "digest"})
        digest = "sha256:" + hashlib.sha256((namespace + "k" * 300).encode()).hexdigest()
        assert server.holds(namespace + digest)
        own = ["YSBi", base64.b64encode(f"{namespace}a b".encode()), digest, digest.upper()]
        assert client.get_many(own) == {}
        client.set_many(dict.fromkeys(own, "own"))
        assert client.get_many(["a b", "k" * 300]) == {"a b": "base64", "k" * 300: "digest"}


KEYS = st.binary(min_size=1, max_size=300) | st.text("ab \n", min_size=1, max_size=6)


@settings(deadline=None)
@given(keys=st.lists(KEYS, min_size=2, max_size=8, unique_by=lambda key: key.encode() if isinstance(key, str) else key))
@example(keys=["a b", "YSBi", base64.b64encode(b"a b")[:-1] + b"=", "a\nb"])
def test_encoded_keys_never_collide(memcached: Memcached, keys: list[Any]) -> None:
    keys = list({key.encode() if isinstance(key, str) else key: key for key in keys}.values())
    with pinyon.Client(memcached.address, timeout=10, connect_timeout=10, encode_keys=True) as client:
        values = {key: number for number, key in enumerate(keys)}
        assert client.set_many(values) == []
        assert client.get_many(keys) == values
        assert [client.get(key) for key in keys] == list(range(len(keys)))


def test_an_old_server_cannot_take_encoded_keys(classic_server: OlderServer) -> None:
    with pinyon.Client(classic_server.address, timeout=10, connect_timeout=10, encode_keys=True) as client:
        for use in uses(client, "two words"):
            with pytest.raises(pinyon.Error, match=r"needs memcached 1\.6\.10 or newer.*1\.4\.15") as raised:
                use()
            error = raised.value
            (cause,) = [f.error for f in error.failures] if isinstance(error, pinyon.BatchError) else [error]
            assert isinstance(cause, pinyon.Unsupported)
        assert client.set("k" * 300, "a digest suits every server")
        assert client.get("k" * 300) == "a digest suits every server"
        assert client.get_many(["k" * 300]) == {"k" * 300: "a digest suits every server"}
