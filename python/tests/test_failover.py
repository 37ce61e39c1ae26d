"""Four servers of which one goes away and comes back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from conftest import eventually
from faulty import STALL, FaultyServer
from servers import Memcached

import pinyon

KEYS = [f"key:{number}" for number in range(200)]
#: What using a server that has gone raises, at first and once it is marked down.
GONE: tuple[type[pinyon.Error], ...] = (pinyon.ConnectError, pinyon.ServerDown)
#: The shortest time between two probes.
BACK_OFF = 0.25 * 3 / 4
VALUES = {key: f"value of {key}" for key in KEYS}


@dataclass
class Pool:
    servers: list[Memcached]
    #: The one that goes away, and its keys.
    lost: Memcached
    lost_keys: list[str]

    @property
    def others(self) -> dict[str, str]:
        return {key: value for key, value in VALUES.items() if key not in self.lost_keys}

    def client(self, **options: object) -> pinyon.Client:
        options = {"timeout": 1.0, **options}
        return pinyon.Client([server.address for server in self.servers], **options)  # type: ignore[arg-type]


@pytest.fixture
def pool() -> Iterator[Pool]:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Memcached()) for _ in range(4)]
        with pinyon.Client([server.address for server in servers], timeout=10) as client:
            assert client.set_many(VALUES) == []
        lost_keys = [key for key in KEYS if servers[1].holds(key)]
        assert 10 < len(lost_keys) < 150
        yield Pool(servers, servers[1], lost_keys)


def test_with_failover_the_lost_keys_are_served_elsewhere(pool: Pool) -> None:
    with pool.client(failover=True) as client:
        assert client.get_many(KEYS) == VALUES
        pool.lost.stop()
        for key in KEYS:
            assert client.get(key) == pool.others.get(key)
        for key in pool.lost_keys:
            assert client.set(key, "elsewhere") is True
            assert client.get(key) == "elsewhere"
        assert client.get_many(KEYS) == {**pool.others, **dict.fromkeys(pool.lost_keys, "elsewhere")}
        assert f"{pool.lost.address} down" in repr(client)


def test_with_failover_operations_on_many_keys_go_elsewhere_too(pool: Pool) -> None:
    for prepare in (lambda client: client.get_many(KEYS), lambda client: None):
        pool.lost.restart()
        with pool.client(failover=True) as client:
            prepare(client)
            pool.lost.stop()
            time.sleep(0.05)
            assert client.set_many(VALUES) == []
            assert client.get_many(KEYS) == VALUES
            with client.quiet() as batch:
                for key in KEYS:
                    batch.append(key, "!")
            assert client.get_many(KEYS) == {key: f"{value}!" for key, value in VALUES.items()}
            assert client.delete_many(KEYS) == len(KEYS)


def test_without_failover_the_lost_keys_fail_and_the_others_do_not(pool: Pool) -> None:
    with pool.client(failover=False) as client:
        assert client.get_many(KEYS) == VALUES
        pool.lost.stop()
        for key in KEYS:
            if key in pool.others:
                assert client.get(key) == VALUES[key]
                assert client.set(key, VALUES[key])
                continue
            with pytest.raises(GONE) as raised:
                client.get(key)
            assert (raised.value.server, raised.value.command) == (pool.lost.address, "get")
            # The first may have left on a connection that was not yet known to be closed, and was tried again.
            assert raised.value.sent == "no" or key == pool.lost_keys[0]
            with pytest.raises(GONE) as raised:
                client.set(key, "lost")
            assert (raised.value.server, raised.value.command) == (pool.lost.address, "set")


def test_a_server_marked_down_fails_at_once(faulty: Callable[..., FaultyServer]) -> None:
    server = faulty(STALL)
    with pinyon.Client(server.address, timeout=0.15) as client:
        with pytest.raises(pinyon.Timeout):
            client.get("key")
        begun = time.monotonic()
        outcomes = [outcome(lambda: client.set("key", 1)) for _ in range(20)]
        probes = len(server.requests) - 1
        assert probes <= (time.monotonic() - begun) / BACK_OFF
    down = [each for each in outcomes if isinstance(each, pinyon.ServerDown)]
    assert len(down) == len(outcomes) - probes
    assert all("marked down and not tried now" in str(each) and "did not answer in time" in str(each) for each in down)


def outcome(attempt: Callable[[], object]) -> object:
    try:
        return attempt()
    except pinyon.Error as error:
        return error


def test_get_many_says_what_arrived(pool: Pool) -> None:
    with pool.client(failover=False) as client:
        pool.lost.stop()
        for _ in range(4):
            with pytest.raises(GONE) as raised:
                client.get_many(KEYS)
            assert raised.value.partial == pool.others
            assert (raised.value.server, raised.value.command) == (pool.lost.address, "get_many")


def test_set_many_and_delete_many_say_what_was_done(pool: Pool) -> None:
    with pool.client(failover=False) as client:
        pool.lost.stop()
        with pytest.raises(GONE) as raised:
            client.set_many(dict.fromkeys(KEYS, "new"))
        assert raised.value.partial == pool.lost_keys
        assert client.get_many(pool.others) == dict.fromkeys(pool.others, "new")
        with pytest.raises(GONE) as raised:
            client.delete_many(KEYS)
        assert raised.value.partial == len(pool.others)


def test_a_stalled_server_costs_get_many_one_timeout(pool: Pool) -> None:
    with pool.client(timeout=2, failover=False) as client:
        assert client.get_many(KEYS) == VALUES
        pool.lost.pause()
        begun = time.monotonic()
        try:
            with pytest.raises(pinyon.Timeout) as raised:
                client.get_many(KEYS)
        finally:
            pool.lost.resume()
        assert 1.9 < time.monotonic() - begun < 3.9
        assert raised.value.partial == pool.others
        assert raised.value.server == pool.lost.address
        assert eventually(lambda: client.get_many(KEYS)) == VALUES


def test_with_failover_a_stalled_server_is_left_out_after_a_timeout(pool: Pool) -> None:
    key = pool.lost_keys[0]
    with pool.client(timeout=1, connect_timeout=10, failover=True) as client:
        pool.lost.pause()
        try:
            with pytest.raises(pinyon.Timeout):
                client.get(key)
            assert client.set(key, "elsewhere")
            assert client.get(key) == "elsewhere"
        finally:
            pool.lost.resume()


@pytest.mark.parametrize("failover", [True, False])
def test_a_server_that_comes_back_is_in_use_within_seconds(pool: Pool, failover: bool) -> None:
    key = pool.lost_keys[0]
    with pool.client(failover=failover) as client:
        pool.lost.stop()
        give_up = time.monotonic() + 2.5
        while time.monotonic() < give_up:
            with contextlib.suppress(pinyon.Error):
                client.get(key)
            time.sleep(0.01)
        pool.lost.restart()
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up and not pool.lost.holds(key):
            with contextlib.suppress(pinyon.Error):
                client.set(key, "back")
            time.sleep(0.02)
        assert pool.lost.holds(key)
        assert client.get(key) == "back"
        assert f"{pool.lost.address} up" in repr(client)


def test_with_every_server_gone_the_error_says_so(pool: Pool) -> None:
    with pool.client(failover=True) as client:
        client.set("key", 1)
        for server in pool.servers:
            server.stop()
        for use in (lambda: client.get("key"), lambda: client.set("key", 1), lambda: client.get_many(KEYS)):
            for _ in range(3):
                with pytest.raises((pinyon.ConnectError, pinyon.ServerDown, pinyon.ConnectionLost)):
                    use()


def test_an_error_of_the_servers_own_does_not_mark_it_down(pool: Pool) -> None:
    with pool.client() as client:
        for _ in range(5):
            with pytest.raises(pinyon.ServerError):
                client.incr(pool.lost_keys[0])
        assert f"{pool.lost.address} up" in repr(client)
