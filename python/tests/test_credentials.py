"""Functions that return credentials: they are called before each connection, in every concurrency model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import pytest
from models import Model, every_model
from playing import everything_said
from servers import PASSWORD, GuardedMemcached, Redis, Sentinel
from waiting import SOON, eventually_answers

import pinyon

Connect = Callable[..., Any]
LocksOn = Callable[..., Any]

#: How functions are written: the name says in which way.
WAYS = ["function", "coroutine function", "object"]


class Source:
    """Returns what it is told to, and counts its calls."""

    def __init__(self, returns: Any) -> None:
        self.returns = returns
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        if isinstance(self.returns, Exception):
            raise self.returns
        return self.returns

    def written(self, way: str) -> Callable[[], Any]:
        async def coroutine() -> Any:
            return self()

        def function() -> Any:
            return self()

        return {"function": function, "coroutine function": coroutine, "object": self}[way]


@pytest.fixture
def guarded(tmp_path: Path) -> Any:
    """A memcached for one test, and the file with its users."""
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(0o755)
    users = tmp_path / "users"
    with GuardedMemcached(users) as server:
        yield server, users


@pytest.mark.parametrize("way", WAYS)
@every_model
async def test_a_function_is_called_before_each_connection(
    model: Model, guarded: tuple[GuardedMemcached, Path], connect: Connect, way: str
) -> None:
    if model.name == "gevent" and way == "coroutine function":
        pytest.skip("greenlets await no coroutines")
    server, users = guarded
    source = Source(PASSWORD)
    client = connect(server, username="app", password=source.written(way))
    assert source.calls == 0
    assert await client.set("key", "value")
    assert await client.get("key") == "value"
    assert source.calls == 1

    users.write_text("app:renewed\n")
    source.returns = "renewed"
    server.stop()
    server.start()
    await eventually_answers(client)
    assert source.calls >= 2


@pytest.mark.parametrize(
    "settings",
    [
        lambda whole: {"password": whole},
        lambda whole: {"username": whole},
        lambda whole: {"username": lambda: "app", "password": lambda: PASSWORD},
        lambda whole: {"username": "somebody", "password": whole},
        lambda whole: {"username": b"app".decode, "password": lambda: PASSWORD.encode()},
    ],
)
@every_model
async def test_a_function_may_return_both(
    model: Model, guarded_memcached: GuardedMemcached, connect: Connect, settings: Any
) -> None:
    whole = Source(pinyon.Credentials(username="app", password=PASSWORD, lifetime=60))
    client = connect(guarded_memcached, **settings(whole))
    assert await client.set("key", "value")


SECRET = "battery-staple"

FAILURES: dict[str, tuple[Any, str]] = {
    "raises": (
        LookupError("the vault is sealed"),
        "the function for password failed: LookupError: the vault is sealed",
    ),
    "returns nothing": (None, "it returned NoneType instead of text, or of a dict of username, password and lifetime"),
    "returns no password": ({"username": "app"}, "it returned no password"),
    "misspells": ({"user": "app", "password": SECRET}, "other keys than username, password and lifetime"),
    "lasts no time": ({"password": SECRET, "lifetime": 0}, "a lifetime that is not a positive number of seconds"),
    "lasts a word": ({"password": SECRET, "lifetime": SECRET}, "a lifetime that is not a number of seconds but str"),
    "is not text": ({"password": 5}, "it returned a password that is not text but int"),
    "cannot be sent": (f"{SECRET}\r\nflush_all", "password must be 1 to 250 bytes without spaces"),
}


@pytest.mark.parametrize("case", FAILURES)
@every_model
async def test_a_function_that_fails_is_called_again_and_blames_no_server(
    model: Model, guarded_memcached: GuardedMemcached, connect: Connect, case: str
) -> None:
    returns, says = FAILURES[case]
    source = Source(returns)
    client = connect(guarded_memcached, username="app", password=source)
    for attempt in range(1, 5):
        with pytest.raises(pinyon.ConnectError) as raised:
            await client.get("key")
        assert says in str(raised.value)
        assert str(raised.value).startswith(f"{guarded_memcached.address}: get: cannot connect: ")
        assert SECRET not in everything_said(raised.value)
        assert source.calls == attempt
    source.returns = PASSWORD
    assert await client.set("key", "value")


@every_model
async def test_a_function_that_hangs_is_bounded_by_the_timeout_and_called_once(
    model: Model, guarded_memcached: GuardedMemcached, connect: Connect
) -> None:
    released = threading.Event()
    calls = []

    def hangs() -> str:
        calls.append(threading.current_thread())
        sleep = gevent.sleep if model.name == "gevent" else time.sleep
        while not released.is_set():
            sleep(0.01)
        return PASSWORD

    client = connect(guarded_memcached, username="app", password=hangs, timeout=0.2)
    try:
        for _ in range(3):
            with pytest.raises(pinyon.Error) as raised:
                await client.get("key")
            assert not isinstance(raised.value, pinyon.ServerDown)
        assert len(calls) == 1
    finally:
        released.set()
    await eventually_answers(client)
    assert len(calls) == 1


@every_model
async def test_a_function_may_use_another_client(
    model: Model, guarded_memcached: GuardedMemcached, memcached: Any, connect: Connect
) -> None:
    vault = pinyon.Client(memcached.address, timeout=SOON)
    vault.set("password", PASSWORD)
    client = connect(guarded_memcached, username="app", password=lambda: vault.get("password"))
    assert await client.set("key", "value")
    vault.close()


def test_a_function_is_in_no_text() -> None:
    client = pinyon.Client("127.0.0.1:1", username="app", password=lambda: PASSWORD)
    assert PASSWORD not in repr(client)


@every_model
async def test_locks_are_held_beyond_the_end_of_their_credentials(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    numbers = iter(range(1, 1000))

    def renewed() -> pinyon.Credentials:
        password = f"token-{next(numbers)}"
        own_redis.ask("ACL", "SETUSER", "app", "on", "resetpass", f">{password}", "+@all", "~*", "&*")
        return {"username": "app", "password": password, "lifetime": 1}

    locks = locks_on(own_redis, password=renewed)
    lock = locks.lock("name", ttl=20)
    await lock.acquire()
    first = own_redis.ask("CLIENT", "LIST")
    await model.sleep(3)
    assert await lock.extend(20)
    assert next(numbers) > 3
    assert connection_of(first) == connection_of(own_redis.ask("CLIENT", "LIST"))
    await lock.release()


def connection_of(clients: Any) -> list[str]:
    """Returns which connections the user has."""
    lines = str(clients).split("id=")
    return sorted(line.split()[0] for line in lines if "user=app" in line)


@every_model
async def test_each_member_of_a_quorum_is_asked_for_and_logged_in_anew(
    model: Model, redis_with: Callable[..., Redis], locks_on: LocksOn
) -> None:
    servers = [redis_with() for _ in range(3)]
    calls = Source(None)

    def renewed() -> pinyon.Credentials:
        calls()
        password = f"token-{calls.calls}"
        for server in servers:
            server.ask("ACL", "SETUSER", "app", "on", f">{password}", "+@all", "~*", "&*")
        return {"username": "app", "password": password, "lifetime": 1}

    # A server that was started a short time ago has no vote.
    locks = locks_on([server.url for server in servers], password=renewed, ttl=5, longest_ttl=5, timeout=SOON)
    lock = locks.lock("name")
    await lock.acquire()
    while calls.calls < 12:
        await model.sleep(0.1)
    assert await lock.extend(5)
    await lock.release()


@every_model
async def test_sentinels_have_a_function_of_their_own(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    own_redis.ask("ACL", "SETUSER", "app", "on", f">{PASSWORD}", "+@all", "~*", "&*")
    monitored = f"sentinel monitor main {own_redis.host} {own_redis.port} 1"
    with Sentinel(monitored, "requirepass guarded") as sentinel:
        of_servers, of_sentinels = Source({"username": "app", "password": PASSWORD}), Source("guarded")
        url = f"redis+sentinel://{sentinel.host}:{sentinel.port}/main"
        locks = locks_on(url, password=of_servers, sentinel_password=of_sentinels)
        lock = locks.lock("name")
        await lock.acquire()
        await lock.release()
        assert of_servers.calls >= 1
        assert of_sentinels.calls >= 1
