"""Real servers that are absent, paused or restarted. Scripted ones are in ``scenarios/``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import eventually
from faulty import OlderServer
from pinyon_verify.ports import free_port
from servers import Memcached

import pinyon

Clients = Callable[..., pinyon.Client]

#: Seconds: well above the impatient client's timeout, for slow machines.
IN_TIME = 30


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < IN_TIME


def quietly(client: pinyon.Client) -> None:
    with client.quiet() as batch:
        batch.set("key", 1)


#: Every kind of operation, by the name in its errors.
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


def test_idle_connections_of_a_restarted_server_cost_no_error(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=30, connect_timeout=30) as client:
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
