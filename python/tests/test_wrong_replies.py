"""Replies that are well-formed lines and still wrong: no value of theirs is handed out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import eventually
from faulty import FaultyServer, reply, stall, swap
from servers import Memcached

import pinyon

Clients = Callable[..., pinyon.Client]
Faults = Callable[..., FaultyServer]


def get(client: pinyon.Client) -> Any:
    return client.get("key")


def get_many(client: pinyon.Client) -> Any:
    return client.get_many(["key", "other", "third"])


def store(client: pinyon.Client) -> Any:
    return client.set("key", "value")


CLASSIC = b"VERSION 1.4.15\r\n"
WRONG: list[tuple[Callable[[pinyon.Client], Any], bytes]] = [
    (get, b"VA 5 f16 Offff\r\nwrong\r\n"),
    (get, b"VA 5 f16\r\nwrong\r\n"),
    (get, b"EN Offff\r\n"),
    (get, b"VA 3 f16 O$O\r\nwrong\r\n"),
    (get, b"VA -5 f16 O$O\r\nwrong\r\n"),
    (get, b"VA five f16 O$O\r\nwrong\r\n"),
    (get, b"VA f16 O$O\r\nwrong\r\n"),
    (get, b"VA 99999999999999999999999 f16 O$O\r\nwrong\r\n"),
    (get, b"VA 5 f99999999999 O$O\r\nwrong\r\n"),
    (get, b"MN\r\n"),
    (get, b"VALUE key 0 5\r\nwrong\r\nEND\r\n"),
    (get, b"STORED\r\n"),
    (get, b"\r\n"),
    (store, b"HD Offff\r\n"),
    (store, b"HD\r\n"),
    (store, b"VA 5 O$O\r\nwrong\r\n"),
    (store, b"STORED\r\n"),
    (get_many, b"VALUE wrong 16 5\r\nwrong\r\nEND\r\n"),
    (get_many, b"VALUE ke 16 5\r\nwrong\r\nEND\r\n"),
    (get_many, b"VALUE keys 16 5\r\nwrong\r\nEND\r\n"),
    (get_many, b"VALUE other 16 1\r\no\r\nVALUE key 16 1\r\nk\r\nEND\r\n"),
    (get_many, b"VALUE key 16 1\r\nk\r\nVALUE key 16 5\r\nwrong\r\nEND\r\n"),
    (get_many, b"VALUE key 16 3\r\nwrong\r\nEND\r\n"),
    (get_many, b"VALUE key 16 -5\r\nwrong\r\nEND\r\n"),
    (get_many, b"VALUE key 16 five\r\nwrong\r\nEND\r\n"),
    (get_many, b"VALUE key 16\r\nwrong\r\nEND\r\n"),
    (get_many, b"VALUE key\r\n"),
    (get_many, b"VALUE key 16 99999999999999999999999\r\nwrong\r\nEND\r\n"),
    (get_many, b"ENDED\r\n"),
    (get_many, b"EN\r\n"),
]


def still_works(client: pinyon.Client, server: FaultyServer, healthy: Memcached) -> None:
    server.heal(healthy)
    assert eventually(lambda: client.set("key", "right"))
    assert client.get("key") == "right"


@pytest.mark.parametrize(
    ("use", "answer"), WRONG, ids=lambda value: value if isinstance(value, bytes) else value.__name__
)
def test_a_wrong_reply_is_a_protocol_error(
    faulty: Faults, impatient: Clients, server: Memcached, use: Callable[..., Any], answer: bytes
) -> None:
    wrong = faulty(reply(answer), stall)
    client = impatient(wrong)
    with pytest.raises(pinyon.ProtocolError) as raised:
        use(client)
    assert (raised.value.server, raised.value.sent) == (wrong.address, "maybe")
    assert raised.value.command == {get: "get", get_many: "get_many", store: "set"}[use]
    assert "wrong" not in (getattr(raised.value, "partial", None) or {}).values()
    still_works(client, wrong, server)


@pytest.mark.parametrize(
    ("use", "answer"),
    [
        (get, b"VALUE wrong 16 5\r\nwrong\r\nEND\r\n"),
        (store, b"DELETED\r\n"),
        (lambda client: client.incr("key"), b"five\r\n"),
    ],
    ids=["get", "set", "incr"],
)
def test_a_wrong_reply_in_classic_text_is_a_protocol_error(
    faulty: Faults, impatient: Clients, server: Memcached, use: Callable[..., Any], answer: bytes
) -> None:
    wrong = faulty(reply(answer), stall, version=CLASSIC)
    client = impatient(wrong)
    with pytest.raises(pinyon.ProtocolError):
        use(client)
    still_works(client, wrong, server)


@pytest.mark.parametrize("size", [6, 10, 100_000])
def test_a_value_shorter_than_its_length_is_waited_for_and_not_handed_out(
    faulty: Faults, impatient: Clients, server: Memcached, size: int
) -> None:
    for use, answer in ((get, b"VA %d f0 O$O\r\nwrong\r\n"), (get_many, b"VALUE key 0 %d\r\nwrong\r\nEND\r\n")):
        short = faulty(reply(answer % size), stall)
        client = impatient(short)
        begun = time.monotonic()
        with pytest.raises((pinyon.Timeout, pinyon.ProtocolError)):
            use(client)
        assert time.monotonic() - begun < 1.5
        still_works(client, short, server)


@pytest.mark.parametrize("size", [2**20 + 1, 10**10, 2**63 - 1])
def test_a_huge_length_is_refused_before_memory_is_taken_for_it(
    faulty: Faults, impatient: Clients, server: Memcached, size: int
) -> None:
    for use, answer in ((get, b"VA %d f0 O$O\r\n"), (get_many, b"VALUE key 0 %d\r\n")):
        huge = faulty(reply(answer % size), stall)
        client = impatient(huge)
        with pytest.raises((pinyon.ValueTooLarge, pinyon.ProtocolError), match=r"length|max_value_size"):
            use(client)
        still_works(client, huge, server)


@pytest.mark.parametrize("words", [b"ERROR", b"CLIENT_ERROR bad command line format", b"SERVER_ERROR out of memory"])
def test_the_servers_own_errors_are_passed_on(
    faulty: Faults, impatient: Clients, server: Memcached, words: bytes
) -> None:
    for name, use in (("get", get), ("get_many", get_many), ("set", store)):
        refusing = faulty(reply(words + b"\r\n"), reply(words + b"\r\n"))
        client = impatient(refusing)
        with pytest.raises(pinyon.ServerError, match=words.decode()) as raised:
            use(client)
        assert (raised.value.server, raised.value.command, raised.value.sent) == (refusing.address, name, "yes")
        assert f"{refusing.address} up" in repr(client)
        still_works(client, refusing, server)


def test_an_error_in_the_middle_of_many_values_ends_them(faulty: Faults, impatient: Clients, server: Memcached) -> None:
    broken = faulty(reply(b"VALUE key 16 1\r\nk\r\nSERVER_ERROR out of memory writing get response\r\n"), stall)
    client = impatient(broken)
    with pytest.raises(pinyon.ServerError, match="out of memory"):
        get_many(client)
    still_works(client, broken, server)


def test_replies_in_the_wrong_order_are_attributed_or_refused(
    faulty: Faults, impatient: Clients, server: Memcached
) -> None:
    swapped = faulty(swap(b"NF O$O\r\n"), reply(b"MN\r\n"))
    client = impatient(swapped)
    with pytest.raises(pinyon.ProtocolError):
        client.delete_many(["one", "two"])
    still_works(client, swapped, server)


def test_another_keys_reply_is_refused_to_every_command(faulty: Faults, impatient: Clients) -> None:
    for use in (
        lambda client: client.gets("key"),
        lambda client: client.gat("key", 1),
        lambda client: client.touch("key", 1),
        lambda client: client.delete("key"),
        lambda client: client.incr("key"),
        lambda client: client.meta("key"),
    ):
        client = impatient(faulty(reply(b"VA 1 f2 c1 Offff\r\n7\r\n"), stall))
        with pytest.raises(pinyon.ProtocolError):
            use(client)


def test_an_unknown_or_repeated_return_flag_does_no_harm(faulty: Faults, impatient: Clients) -> None:
    client = impatient(faulty(reply(b"VA 5 f16 O$O W\r\nvalue\r\n")))
    assert client.get("key") == "value"


@pytest.mark.parametrize(
    "answer", [b"VA 4 O$O\r\nfive\r\n", b"VA 0 O$O\r\n\r\n", b"VA 20 O$O\r\n99999999999999999999\r\n", b"HD O$O\r\n"]
)
def test_a_counter_that_is_no_number_is_refused(faulty: Faults, impatient: Clients, answer: bytes) -> None:
    client = impatient(faulty(reply(answer), stall))
    with pytest.raises(pinyon.ProtocolError):
        client.incr("key")
