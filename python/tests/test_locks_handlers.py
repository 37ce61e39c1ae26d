"""Ways to use the server: functions, scripts, plain commands, RESP2; and users with restricted permissions."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from locking import nothing_left, still_renewed
from logs import about, text_about
from models import BLOCKING, COOPERATIVE, Model, every_model, run_by, shuffled
from servers import Redis

import pinyon

LocksOn = Callable[..., Any]
RedisWith = Callable[..., Redis]

#: What the server lacks, and the client's settings.
WAYS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "functions": ((), {}),
    "scripts": (("--rename-command", "FCALL", "", "--rename-command", "FUNCTION", ""), {}),
    "RESP2": (("--rename-command", "HELLO", ""), {}),
    "pure": ((), {"handler": "pure"}),
    "pure over RESP2": (("--rename-command", "HELLO", ""), {"handler": "pure"}),
}
every_way = pytest.mark.parametrize("way", WAYS)


async def use(model: Model, redis: Redis, clients: list[Any]) -> None:
    """No two holders at once, waiters that time out are told, and losses are noticed."""
    inside: dict[str, int] = {}

    async def work(number: int) -> None:
        chance = shuffled(number)
        for _ in range(4):
            names = chance.sample("abcde", chance.randint(1, 3))
            async with clients[number % len(clients)].lock(*names, timeout=60) as held:
                for name in names:
                    assert inside.setdefault(name, number) == number
                await model.sleep(0)
                held.check()
                for name in names:
                    del inside[name]

    assert await model.gather(work(number) for number in range(12)) == [None] * 12
    await nothing_left(model, redis)
    tokens = []
    for locks in clients * 2:
        async with locks.lock("a", "b") as held:
            tokens.append(held.token)
            for other in clients:
                stranger = model.spawn(other.try_lock("b"))
                assert await model.join(stranger) is None
            for waiting in [model.spawn(other.lock("a", timeout=1).acquire()) for other in clients]:
                with pytest.raises(pinyon.LockTimeout):
                    await model.join(waiting)
            for other in clients:
                assert await other.is_locked("a")
            assert await held.extend(5)
    assert tokens == sorted(set(tokens))
    for locks in clients:
        lost: list[Any] = []
        held = await locks.lock("a", ttl=2, on_lost=lost.append).acquire()
        assert await clients[0].force_release("a") == 1
        await model.until(lambda lost=lost: lost)
        assert not await held.release()
    await nothing_left(model, redis)


@every_way
@every_model
async def test_every_way_to_speak_keeps_locks(
    model: Model, way: str, redis_with: RedisWith, locks_on: LocksOn, caplog: pytest.LogCaptureFixture
) -> None:
    arguments, settings = WAYS[way]
    redis = redis_with(*arguments)
    clients = [locks_on(redis, **settings) for _ in range(2)]
    await use(model, redis, clients)
    calls = redis.calls()
    assert ("fcall" in calls) == (way in ("functions", "RESP2"))
    assert ("evalsha" in calls) == (way == "scripts")
    assert redis.clients() == (4 if "RESP2" in way else 2)
    assert not about(redis, caplog)


@pytest.mark.parametrize("way", ["scripts", "pure"])
@run_by([BLOCKING, COOPERATIVE[1]])
async def test_every_way_to_speak_renews_locks(
    model: Model, way: str, redis_with: RedisWith, locks_on: LocksOn
) -> None:
    arguments, settings = WAYS[way]
    async with locks_on(redis_with(*arguments), **settings).lock("a", "b", ttl=6) as held:
        await still_renewed(model, held)


@every_model
async def test_clients_with_and_without_scripts_share_locks(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    clients = [locks_on(redis, handler=handler, heartbeat=100) for handler in ("script", "pure")]
    await use(model, redis, clients)
    for locks, others in (clients, clients[::-1]):
        held = await locks.lock("a").acquire()
        waiting = model.spawn(others.lock("a", "b", timeout=60).acquire())
        await model.sleep(0.1)
        begun = time.monotonic()
        assert await held.release()
        later = await model.join(waiting)
        assert time.monotonic() - begun < 40, "who waits is told, and does not have to look again by itself"
        assert later.token > held.token
        assert await later.release()
    await nothing_left(model, redis)


@pytest.mark.parametrize("way", ["functions", "scripts"])
@every_model
async def test_scripts_that_the_server_has_forgotten_are_loaded_again(
    model: Model, way: str, redis_with: RedisWith, locks_on: LocksOn
) -> None:
    redis = redis_with(*WAYS[way][0])
    locks = locks_on(redis)
    forget = ("FUNCTION", "FLUSH") if way == "functions" else ("SCRIPT", "FLUSH")
    for _ in range(3):
        async with locks.lock("a", "b"):
            assert redis.ask(*forget) == "OK"
        assert redis.ask(*forget) == "OK"
        assert await model.gather(one(locks, f"name {number}") for number in range(8)) == [True] * 8
    await nothing_left(model, redis)


async def one(locks: Any, *names: str) -> bool:
    async with locks.lock(*names, timeout=60) as held:
        return not held.is_lost


@pytest.mark.parametrize("names", [("a",), ("a", "b")], ids=["one", "two"])
@every_model
async def test_a_transaction_that_fails_halfway_leaves_nothing_locked(
    model: Model, names: tuple[str, ...], redis: Redis, locks_on: LocksOn
) -> None:
    locks = locks_on(redis, handler="pure")
    assert await one(locks, *names)
    redis.ask("SET", "{pinyon}:#f", "no number")
    with pytest.raises(pinyon.ServerError, match="not an integer"):
        await locks.lock(*names).acquire()
    await nothing_left(model, redis)
    redis.ask("DEL", "{pinyon}:#f")
    assert await one(locks, *names)


@contextlib.contextmanager
def tokens_drawn(redis: Redis) -> Iterator[threading.Thread]:
    """Tries to lock something all the time, for a minute at most."""
    until, over = time.monotonic() + 60, threading.Event()

    def draw(connection: socket.socket) -> None:
        while not over.is_set() and time.monotonic() < until:
            connection.sendall(b"INCR {pinyon}:#f\r\n" * 1000)
        connection.shutdown(socket.SHUT_WR)

    with redis.connect() as connection:
        drawing = threading.Thread(target=draw, args=(connection,))
        reading = threading.Thread(target=lambda: [True for _ in iter(lambda: connection.recv(65536), b"")])
        for thread in (drawing, reading):
            thread.start()
        try:
            yield drawing
        finally:
            over.set()
            drawing.join()
            reading.join()


@every_model
async def test_a_lock_is_given_back_while_others_draw_tokens(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(redis, handler="pure")
    held = await locks.lock("a", "b").acquire()
    with tokens_drawn(redis) as drawing:
        assert await held.release()
        assert drawing.is_alive()
    await nothing_left(model, redis)


@every_model
async def test_conditions_need_scripts(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    """The lock stays held."""
    locks = locks_on(redis, handler="pure")
    async with locks.lock("a") as held:
        for ask in (held.notify, held.wait):
            with pytest.raises(pinyon.Unsupported, match='set handler to "script"'):
                await ask()
        held.check()
    await nothing_left(model, redis)


EVERYTHING = ("on", ">secret", "~*", "&*", "+@all")


def as_user(redis: Redis, *rules: str) -> str:
    assert redis.ask("ACL", "SETUSER", "app", "reset", *rules) == "OK"
    return f"redis://app:secret@{redis.address}"


NO_SCRIPTS = (*EVERYTHING, "-@scripting")


@every_model
async def test_a_user_who_may_run_no_scripts_does_without(
    model: Model, own_redis: Redis, locks_on: LocksOn, caplog: pytest.LogCaptureFixture
) -> None:
    url = as_user(own_redis, *NO_SCRIPTS)
    clients = [locks_on(url), locks_on(own_redis)]
    await use(model, own_redis, clients)
    await model.until(lambda: about(own_redis, caplog))
    (record,) = about(own_redis, caplog)
    assert (record.name, record.levelno) == ("pinyon.locks", logging.WARNING)
    assert "locks go without scripts" in record.getMessage()
    assert 'set handler to "pure"' in record.getMessage()
    strict = locks_on(url, handler="script")
    with pytest.raises(pinyon.ServerError, match=r"the user may not run .*; see the permissions"):
        await strict.lock("a").acquire()
    assert "secret" not in text_about(own_redis, caplog)
    await nothing_left(model, own_redis)


FORBIDDEN: dict[str, tuple[tuple[str, ...], type[pinyon.Error], str]] = {
    "no channels": ((*EVERYTHING, "resetchannels"), pinyon.ConnectError, r"permit SUBSCRIBE and the channels &\{pin"),
    "other keys": (
        ("on", ">secret", "~other:*", "&*", "+@all"),
        pinyon.ServerError,
        r"may not use the namespace's keys .*; permit the keys ~\{pin",
    ),
    "no publishing": ((*EVERYTHING, "-subscribe"), pinyon.ConnectError, "permit SUBSCRIBE"),
}


@pytest.mark.parametrize("case", FORBIDDEN)
@pytest.mark.parametrize("handler", ["auto", "pure"])
@every_model
async def test_a_user_who_may_not_do_enough_is_told_what_is_missing(
    model: Model, handler: str, case: str, own_redis: Redis, locks_on: LocksOn
) -> None:
    rules, kind, says = FORBIDDEN[case]
    locks = locks_on(as_user(own_redis, *rules), handler=handler)
    for use_it in (lambda: locks.lock("a", timeout=5).acquire(), lambda: locks.try_lock("a")):
        with pytest.raises(pinyon.Error, match=says if handler == "auto" else ".") as raised:
            await use_it()
        assert handler == "pure" or type(raised.value) is kind
        assert own_redis.address in str(raised.value)
        assert "secret" not in str(raised.value)
    assert own_redis.left_behind() == set()


@every_model
async def test_scripts_that_are_forbidden_later_are_done_without(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    """On the same connection: held locks are kept, and waiters get theirs."""
    locks = locks_on(own_redis)
    held = await locks.lock("a", ttl=6).acquire()
    own_redis.ask("ACL", "SETUSER", "default", "-@scripting")
    async with locks.lock("b", timeout=60):
        pass
    await still_renewed(model, held)
    assert await held.release()
    await nothing_left(model, own_redis)
