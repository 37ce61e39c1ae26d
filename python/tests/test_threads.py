"""One client shared by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from conversation import GoneError
from faulty import Conversation, FaultyServer
from servers import Memcached

import pinyon

if TYPE_CHECKING:
    from typing_extensions import Self

#: Seconds. No thread waits so long unless it is stuck.
PATIENCE = 60


def together(*works: Callable[[], None]) -> None:
    """Runs each in a thread of its own. Raises an exception of any of them."""
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("max_connections", [1, 3, 64])
def test_sixteen_threads_each_see_their_own_values(own_server: Memcached, max_connections: int) -> None:
    with pinyon.Client(own_server.address, timeout=20, connect_timeout=20, max_connections=max_connections) as client:

        def work(name: str) -> None:
            for turn in range(60):
                key, value = f"{name}:{turn}", f"value of {name} in turn {turn}" * (turn % 5 * 200 + 1)
                assert client.set(key, value)
                assert client.get(key) == value
                assert client.get_many([key, f"{name}:missing"]) == {key: value}
                with client.quiet() as batch:
                    batch.set(f"{key}:batch", name)
                assert client.gets(f"{key}:batch")[0] == name
                assert client.incr(f"{name}:count", initial=0) == turn

        together(*[lambda name=name: work(name) for name in "abcdefghijklmnop"])
        assert own_server.has_connections(max_connections, at_least=1)
        assert own_server.statistic("total_connections") < max_connections + 20


def test_threads_share_several_servers(four: list[Memcached]) -> None:
    with pinyon.Client(
        [server.address for server in four], timeout=20, connect_timeout=20, max_connections=3
    ) as client:

        def work(name: int) -> None:
            for turn in range(10):
                values = {f"{name}:{turn}:{number}": [name, turn, number] for number in range(300)}
                assert client.set_many(values) == []
                assert client.get_many(values) == values
                assert client.delete_many(values) == 300

        together(*[lambda name=name: work(name) for name in range(8)])


def test_waiting_for_a_connection_ends_with_its_own_message(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=1.5, connect_timeout=30, max_connections=1) as client:
        with client.quiet() as batch:
            batch.set("key", 1)
            begun = time.monotonic()
            with pytest.raises(pinyon.Timeout, match=r"all 1 connections stayed in use \(max_connections\)") as raised:
                client.get("key")
            assert 1.4 < time.monotonic() - begun < 30
            assert (raised.value.sent, raised.value.command) == ("no", "get")
        assert client.get("key") == 1


def test_waiting_in_vain_for_a_connection_says_nothing_about_the_server(four: list[Memcached]) -> None:
    server = four[0]
    with pinyon.Client(server.address, timeout=1, connect_timeout=30, max_connections=1) as client:
        with client.quiet() as batch:
            batch.set("key", 1)
            for _ in range(4):
                with pytest.raises(pinyon.Timeout, match="max_connections"):
                    client.get("key")
        assert f"{server.address} up" in repr(client)
        assert client.get("key") == 1


def test_a_waiting_thread_gets_the_connection_that_becomes_free(client: pinyon.Client, server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, max_connections=1) as shared:
        shared.set("key", 1)
        found: list[object] = []
        waiting = threading.Thread(target=lambda: found.append(shared.get("key")))
        with shared.quiet() as batch:
            batch.set("other", 1)
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()
        waiting.join(60)
        assert found == [1]


class Ticker:
    """Another thread, which counts during the block."""

    def __init__(self) -> None:
        self.count = 0
        self.is_enough = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick)

    def _tick(self) -> None:
        while not self._over.wait(0.005):
            self.count += 1
            if self.count == 10:
                self.is_enough.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def set_quietly(client: pinyon.Client) -> None:
    with client.quiet() as batch:
        batch.set("key", 1)


OPERATIONS: dict[str, Callable[[pinyon.Client], object]] = {
    "get": lambda client: client.get("key"),
    "get_many": lambda client: client.get_many(["key"]),
    "set": lambda client: client.set("key", 1),
    "quiet": set_quietly,
    "version": lambda client: client.version(),
}


def expect_failure(operation: Callable[[pinyon.Client], object], client: pinyon.Client) -> None:
    with pytest.raises(pinyon.Error):
        operation(client)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("where", ["reply", "connect"])
def test_another_thread_runs_while_one_waits(
    faulty: Callable[..., FaultyServer],
    impatient: Callable[..., pinyon.Client],
    operation: Callable[[pinyon.Client], object],
    where: str,
) -> None:
    ticker = Ticker()

    def close_when_it_is_enough(conversation: Conversation) -> None:
        ticker.is_enough.wait(PATIENCE)
        raise GoneError

    server = faulty(close_when_it_is_enough)
    if where == "connect":
        server.steps = [close_when_it_is_enough]
    client = impatient(server, timeout=PATIENCE, connect_timeout=PATIENCE)
    with ticker:
        expect_failure(operation, client)
    assert ticker.is_enough.is_set()


def test_another_thread_runs_while_one_waits_for_a_connection(
    server: Memcached, impatient: Callable[..., pinyon.Client]
) -> None:
    client = impatient(server, max_connections=1, timeout=3)
    with client.quiet() as batch:
        batch.set("held", 1)
        with Ticker() as ticker:
            expect_failure(OPERATIONS["get"], client)
    assert ticker.is_enough.is_set()


def test_a_stalled_server_holds_up_no_other(
    faulty: Callable[..., FaultyServer], server: Memcached, impatient: Callable[..., pinyon.Client]
) -> None:
    asked, is_done = threading.Event(), threading.Event()

    def close_when_it_is_done(conversation: Conversation) -> None:
        conversation.request()
        asked.set()
        is_done.wait(PATIENCE)
        raise GoneError

    stalled = impatient(faulty(close_when_it_is_done), timeout=PATIENCE, connect_timeout=PATIENCE)
    waiting = threading.Thread(target=expect_failure, args=(OPERATIONS["get"], stalled))
    waiting.start()
    assert asked.wait(PATIENCE)
    with pinyon.Client(server.address, timeout=PATIENCE, connect_timeout=PATIENCE) as client:
        for number in range(100):
            assert client.set("key", number)
            assert client.get("key") == number
    assert waiting.is_alive()
    is_done.set()
    waiting.join()
