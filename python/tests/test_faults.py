"""Servers that are absent, silent, broken or wrong: a clear error in time, and afterwards the client works."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import eventually
from faulty import VERSION, FaultyServer, OlderServer, Step, cut, drip, half_close, late, reply, reset, say, stall
from servers import Memcached, free_port

import pinyon

Clients = Callable[..., pinyon.Client]
Faults = Callable[..., FaultyServer]

#: Well above the impatient client's timeout, for slow machines.
IN_TIME = 1.5
HIT = b"VA 5 f16 O$O\r\nvalue\r\n"


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < IN_TIME


def quietly(client: pinyon.Client) -> None:
    with client.quiet() as batch:
        batch.set("key", 1)


#: Every kind of operation, with the name that its errors give it.
OPERATIONS: dict[str, Callable[[pinyon.Client], Any]] = {
    "get": lambda client: client.get("key"),
    "gat": lambda client: client.gat("key", 1),
    "touch": lambda client: client.touch("key", 1),
    "set": lambda client: client.set("key", 1),
    "append": lambda client: client.append("key", "1"),
    "cas": lambda client: client.cas("key", 1, 1),
    "delete": lambda client: client.delete("key"),
    "incr": lambda client: client.incr("key"),
    "meta": lambda client: client.meta("key"),
    "get_many": lambda client: client.get_many(["key", "other"]),
    "set_many": lambda client: client.set_many({"key": 1, "other": 2}),
    "delete_many": lambda client: client.delete_many(["key", "other"]),
    "flush_all": lambda client: client.flush_all(),
    "stats": lambda client: client.stats(),
    "version": lambda client: client.version(),
}

#: Faults while a reply is awaited, and the error each is.
FAULTS: dict[str, tuple[Step, type[pinyon.Error]]] = {
    "silent": (stall, pinyon.Timeout),
    "closes": (cut(b"", 0), pinyon.ConnectionLost),
    "half-closes": (half_close, pinyon.ConnectionLost),
    "resets": (reset, pinyon.ConnectionLost),
    "garbage": (reply(b"\x00\xff\x13 garbage\r\n"), pinyon.ProtocolError),
    "http": (reply(b"HTTP/1.1 400 Bad Request\r\n\r\n"), pinyon.ProtocolError),
    "endless line": (reply(b"x" * 100_000), pinyon.ProtocolError),
    "bare newline": (reply(b"HD\n"), pinyon.ProtocolError),
    "drips": (drip(b"VA 1000 f0 O$O\r\n" + b"x" * 1000, 0.03), pinyon.Error),
}


def recovers(client: pinyon.Client, server: FaultyServer, healthy: Memcached) -> None:
    server.heal(healthy)
    assert eventually(lambda: client.set("key", "after the fault"))
    assert client.get("key") == "after the fault"
    assert client.get_many(["key", "missing"]) == {"key": "after the fault"}


@pytest.mark.parametrize("operation", OPERATIONS.items(), ids=OPERATIONS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_every_operation_meets_every_fault(
    faulty: Faults,
    impatient: Clients,
    fault: tuple[Step, type[pinyon.Error]],
    operation: tuple[str, Callable[[pinyon.Client], Any]],
) -> None:
    step, expected = fault
    name, use = operation
    server = faulty(step)
    client = impatient(server)
    with in_time(), pytest.raises(expected) as raised:
        use(client)
    assert raised.value.server == server.address
    assert raised.value.command == name
    assert raised.value.sent == "maybe"
    assert str(raised.value).startswith(f"{server.address}: {name}: ")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_client_works_again_after_every_fault(
    faulty: Faults, impatient: Clients, server: Memcached, fault: tuple[Step, type[pinyon.Error]]
) -> None:
    broken = faulty(fault[0])
    client = impatient(broken)
    with pytest.raises(fault[1]):
        client.get("key")
    recovers(client, broken, server)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_batch_reports_every_fault(
    faulty: Faults, impatient: Clients, server: Memcached, fault: tuple[Step, type[pinyon.Error]]
) -> None:
    broken = faulty(fault[0])
    client = impatient(broken)
    with in_time(), pytest.raises(pinyon.BatchError) as raised:
        quietly(client)
    assert raised.value.sent == "maybe"
    (failure,) = raised.value.failures
    assert (failure.key, failure.command) == ("key", "set")
    assert isinstance(failure.error, fault[1])
    assert (failure.error.server, failure.error.sent) == (broken.address, "maybe")
    recovers(client, broken, server)


@pytest.mark.parametrize("operation", OPERATIONS.items(), ids=OPERATIONS)
def test_an_absent_server_refuses_the_connection(
    impatient: Clients, operation: tuple[str, Callable[[pinyon.Client], Any]]
) -> None:
    name, use = operation
    address = f"127.0.0.1:{free_port()}"
    with in_time(), pytest.raises(pinyon.ConnectError, match="Connection refused") as raised:
        use(impatient(address))
    assert (raised.value.server, raised.value.command, raised.value.sent) == (address, name, "no")


def test_an_absent_socket_file_is_a_connect_error(impatient: Clients) -> None:
    with in_time(), pytest.raises(pinyon.ConnectError, match="No such file"):
        impatient("/nonexistent/memcached.sock").get("key")


@pytest.mark.parametrize("operation", OPERATIONS.items(), ids=OPERATIONS)
def test_a_server_silent_from_the_beginning_costs_the_timeout_to_connect(
    faulty: Faults, impatient: Clients, operation: tuple[str, Callable[[pinyon.Client], Any]]
) -> None:
    name, use = operation
    server = faulty(version=None)
    client = impatient(server, connect_timeout=0.1)
    with in_time(), pytest.raises(pinyon.Timeout, match='did not answer "version" in time') as raised:
        use(client)
    assert (raised.value.server, raised.value.command, raised.value.sent) == (server.address, name, "no")


STRANGERS = [b"ERROR\r\n", b"garbage\r\n", b"\r\n", b"HD\r\n", b"VERSION 1.6.18\n", b"x" * 5000]


@pytest.mark.parametrize("version", STRANGERS, ids=lambda version: repr(version[:20]))
def test_what_does_not_answer_as_memcached_is_not_spoken_to(
    faulty: Faults, impatient: Clients, server: Memcached, version: bytes
) -> None:
    stranger = faulty(reply(HIT), version=version)
    client = impatient(stranger)
    with in_time(), pytest.raises(pinyon.Error) as raised:
        client.set("key", 1)
    assert isinstance(raised.value, (pinyon.ProtocolError, pinyon.ConnectError, pinyon.ConnectionLost))
    assert [request for each in stranger.conversations for request in each.requests if request != b"version"] == []
    recovers(client, stranger, server)


def test_an_unreadable_version_is_spoken_to_in_classic_text(faulty: Faults, impatient: Clients) -> None:
    proxy = faulty(reply(b"VALUE $K 16 5\r\nvalue\r\nEND\r\n"), version=b"VERSION mcrouter 41\r\n")
    assert impatient(proxy).get("key") == "value"
    assert proxy.conversations[0].requests == [b"version", b"get key"]


@pytest.mark.parametrize("length", range(len(b"VA 5 f16 O0\r\nvalue\r\n")))
def test_a_reply_cut_at_any_byte_is_a_lost_connection(faulty: Faults, impatient: Clients, length: int) -> None:
    for use, whole in ((OPERATIONS["get"], HIT), (OPERATIONS["get_many"], b"VALUE key 16 5\r\nvalue\r\nEND\r\n")):
        client = impatient(faulty(cut(whole, length)))
        with in_time(), pytest.raises(pinyon.ConnectionLost) as raised:
            use(client)
        assert raised.value.sent == "maybe"
        assert ("in the middle of a reply" in str(raised.value)) == (length > 0)


def test_a_large_value_cut_short_is_a_lost_connection(faulty: Faults, impatient: Clients, server: Memcached) -> None:
    for length in (20_000, 99_000, 100_017, 100_018):
        broken = faulty(cut(b"VA 100000 f0 O$O\r\n" + b"x" * 100_000 + b"\r\n", length))
        client = impatient(broken)
        with in_time(), pytest.raises(pinyon.ConnectionLost, match="in the middle of a reply"):
            client.get("key")
        recovers(client, broken, server)


def test_a_dripping_reply_that_ends_in_time_is_read(faulty: Faults, impatient: Clients) -> None:
    assert impatient(faulty(drip(HIT, 0.005)), timeout=5).get("key") == "value"
    classic = faulty(drip(b"VALUE key 16 5\r\nvalue\r\nEND\r\n", 0.005))
    assert impatient(classic, timeout=5).get_many(["key"]) == {"key": "value"}


@pytest.mark.parametrize("use", ["get", "get_many", "quiet"])
def test_a_drip_that_never_ends_meets_the_deadline(faulty: Faults, impatient: Clients, use: str) -> None:
    start = b"VALUE key 0 100000\r\n" if use == "get_many" else b"VA 100000 f0 O$O\r\n"
    if use == "quiet":
        start = b"NS O"
    client = impatient(faulty(drip(start + b"x" * 1000, 0.05)))
    begun = time.monotonic()
    with pytest.raises(pinyon.Error):
        quietly(client) if use == "quiet" else OPERATIONS[use](client)
    assert 0.25 < time.monotonic() - begun < IN_TIME


def test_a_late_reply_never_reaches_the_next_caller(faulty: Faults, impatient: Clients, server: Memcached) -> None:
    slow = faulty(late(HIT, 0.5), late(HIT, 0.0))
    client = impatient(slow)
    with pytest.raises(pinyon.Timeout):
        client.get("key")
    slow.heal(server)
    client.set("key", "right")
    give_up = time.monotonic() + 0.6
    while time.monotonic() < give_up:
        assert client.get("key") == "right"
        assert client.get("missing") is None


def test_a_server_that_pauses_gives_nobody_anothers_reply(own_server: Memcached, impatient: Clients) -> None:
    client = impatient(own_server, timeout=0.1)
    for classic in (False, True):
        with contextlib.ExitStack() as stack:
            if classic:
                client = impatient(stack.enter_context(OlderServer(own_server, "1.4.15")), timeout=0.1)
            values = {f"key:{number}": f"value {number}" for number in range(20)}
            eventually(lambda client=client, values=values: client.set_many(values))
            for key in values:
                own_server.pause()
                with pytest.raises(pinyon.Error):
                    client.get(key)
                own_server.resume()
                for other, value in list(values.items())[:3]:
                    assert eventually(lambda client=client, other=other: client.get(other)) == value


UNASKED = [b"VA 5 f16 O0\r\nwrong\r\n", b"\r\n", b"STORED\r\n", b"x" * 10_000]


@pytest.mark.parametrize("unasked", UNASKED, ids=lambda unasked: repr(unasked[:20]))
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_bytes_that_nobody_asked_for_cost_the_connection(
    faulty: Faults, impatient: Clients, server: Memcached, unasked: bytes, delay: float
) -> None:
    chatty = faulty(reply(HIT), lambda conversation: time.sleep(delay), say(unasked), stall)
    client = impatient(chatty)
    assert client.get("key") == "value"
    chatty.heal(server)
    time.sleep(delay * 2 + 0.05)
    assert client.add("other", "right") is True
    assert client.get("other") == "right"


@pytest.mark.parametrize("unasked", UNASKED, ids=lambda unasked: repr(unasked[:20]))
def test_bytes_that_nobody_asked_for_are_no_reply(faulty: Faults, impatient: Clients, unasked: bytes) -> None:
    chatty = faulty(reply(HIT), say(unasked), stall)
    client = impatient(chatty)
    assert client.get("key") == "value"
    with contextlib.suppress(pinyon.Error):
        assert client.get("other") == "value"


@pytest.mark.parametrize(
    ("version", "unasked", "answer"),
    [(b"1.4.15", b"STORED\r\n", b"NOT_STORED\r\n"), (b"1.6.18", b"HD O0\r\n", b"NS O$O\r\n")],
)
def test_bytes_behind_the_version_are_no_reply(
    faulty: Faults, impatient: Clients, version: bytes, unasked: bytes, answer: bytes
) -> None:
    chatty = faulty(reply(answer), stall, version=b"VERSION " + version + b"\r\n" + unasked)
    with pytest.raises(pinyon.ProtocolError):
        impatient(chatty).add("key", 1)


def test_a_restarted_server_costs_no_error(own_server: Memcached, impatient: Clients) -> None:
    client = impatient(own_server, timeout=5)
    for use in (
        lambda: client.get("key") is None,
        lambda: client.set("key", 1),
        lambda: client.incr("key") is None,
        lambda: client.get_many(["key"]) == {},
        lambda: client.set_many({"key": 1}) == [],
        lambda: client.delete_many(["key"]) == 0,
        lambda: quietly(client) is None,
        lambda: list(client.version()) == [own_server.address],
    ):
        client.get("warm")
        own_server.restart()
        time.sleep(0.05)
        assert use()
        assert f"{own_server.address} up" in repr(client)


def test_idle_connections_of_a_restarted_server_cost_no_error(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=5) as client:
        batches = [client.quiet() for _ in range(10)]
        for batch in batches:
            batch.__enter__()
            batch.set("key", 1)
        for batch in batches:
            batch.__exit__(None, None, None)
        assert "10 connected, 10 idle" in repr(client)
        own_server.restart()
        time.sleep(0.05)
        assert client.set("key", 1)
        assert client.get("key") == 1


def test_the_version_is_probed_again_after_a_restart(faulty: Faults, impatient: Clients, server: Memcached) -> None:
    upgraded = faulty(reply(b"VALUE $K 16 5\r\nvalue\r\nEND\r\n"), version=b"VERSION 1.4.15\r\n")
    client = impatient(upgraded)
    assert client.get("key") == "value"
    upgraded.heal(server)
    time.sleep(0.05)
    client.set("key", 1)
    assert client.meta("key") is not None
    assert VERSION.startswith(b"VERSION 1.6")
