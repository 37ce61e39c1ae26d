"""Servers that are absent, of the wrong kind, or go away, and what programs are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from locking import nothing_left, queued
from logs import about, text_about
from models import Model, every_model
from pinyon_verify.ports import free_port
from servers import Memcached, Redis

import pinyon

LocksOn = Callable[..., Any]
RedisWith = Callable[..., Redis]

#: What programs are told of a server that stands still. Which of these, is a matter of what it did last.
UNREACHABLE = (pinyon.Timeout, pinyon.LockTimeout, pinyon.ConnectError, pinyon.ConnectionLost)


async def take(locks: Any, *names: str, **settings: Any) -> int:
    async with locks.lock(*names, **{"timeout": 60, **settings}) as held:
        token: int = held.token
        return token


def replicated(redis: Redis) -> bytes:
    """How much of the primary's changes a server has."""
    lines = redis.ask("INFO", "replication").split(b"\r\n")
    return next(line for line in lines if line.startswith(b"master_repl_offset:"))


@pytest.mark.parametrize("url", ["redis://127.0.0.1:{port}", "unix:///nowhere/redis.sock"])
@every_model
async def test_a_server_that_is_not_there_is_told_of_in_time(model: Model, url: str, locks_on: LocksOn) -> None:
    port = free_port()
    locks = locks_on(url.format(port=port), command_timeout=1)
    uses = [lambda: take(locks, "a", timeout=1), lambda: locks.try_lock("a"), lambda: locks.is_locked("a")]
    uses += [lambda: locks.execute("PING"), lambda: locks.force_release("a")]
    begun = time.monotonic()
    for use in uses:
        with pytest.raises(pinyon.ConnectError, match=f"nowhere|:{port}"):
            await use()
    assert time.monotonic() - begun < 60


@every_model
async def test_a_name_that_does_not_resolve(model: Model, locks_on: LocksOn) -> None:
    locks = locks_on("redis://no-such-host.invalid", connect_timeout=1)
    with pytest.raises((pinyon.ConnectError, pinyon.LockTimeout)):
        await take(locks, "a", timeout=3)


@every_model
async def test_a_server_that_comes_up_later(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    own_redis.stop()
    locks = locks_on(own_redis)
    with pytest.raises(pinyon.ConnectError):
        await take(locks, "a", timeout=1)
    own_redis.restart()

    async def try_again() -> bool:
        try:
            return await take(locks, "a") > 0
        except pinyon.ConnectError:
            return False

    await model.until(try_again)


@every_model
async def test_who_waits_while_the_server_is_restarted_has_the_lock_in_time(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    locks, others = locks_on(own_redis), locks_on(own_redis)
    lost: list[Any] = []
    held = await locks.lock("a", ttl=2, on_lost=lost.append).acquire()
    waiting = [model.spawn(take(others, "a", timeout=60)) for _ in range(3)]
    await model.until(lambda: queued(own_redis) == 1)
    own_redis.restart()
    tokens = [await model.join(task) for task in waiting]
    assert len(set(tokens)) == 3
    assert min(tokens) > held.token
    await model.until(lambda: lost)
    assert not await held.release()
    await nothing_left(model, own_redis)


@every_model
async def test_a_server_that_stands_still_ends_what_is_held_and_waited_for(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    locks, others = (locks_on(own_redis, command_timeout=0.5, connect_timeout=1) for _ in range(2))
    lost: list[float] = []
    held = await locks.lock("a", ttl=6, on_lost=lambda held: lost.append(time.monotonic())).acquire()
    waiting = model.spawn(take(others, "a", timeout=4))
    await model.until(lambda: queued(own_redis) == 1)
    own_redis.pause()
    stopped_at = time.monotonic()
    try:
        await model.until(lambda: lost)
        assert 1 < lost[0] - stopped_at < 30
        assert held.is_lost
        with pytest.raises(UNREACHABLE):
            await model.join(waiting)
        assert time.monotonic() - stopped_at < 60
        for use in (
            lambda: locks.is_locked("a"),
            lambda: take(locks, "b", timeout=0.2),
            lambda: take(locks, "b", timeout=8),
        ):
            with pytest.raises(UNREACHABLE):
                await model.join(model.spawn(use()))
        assert await held.release() is False
    finally:
        own_redis.resume()
    assert time.monotonic() - stopped_at < 90

    async def again() -> bool:
        try:
            return await take(locks, "a", "b") > 0
        except pinyon.Error:
            return False

    while not await again():
        assert time.monotonic() - stopped_at < 120
        await model.sleep(0.05)
    await nothing_left(model, own_redis)


@every_model
async def test_a_server_that_stands_still_for_a_moment_changes_nothing(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    locks, others = locks_on(own_redis), locks_on(own_redis)
    held = await locks.lock("a", ttl=10).acquire()
    waiting = model.spawn(take(others, "a"))
    await model.until(lambda: queued(own_redis) == 1)
    own_redis.pause()
    await model.sleep(0.5)
    own_redis.resume()
    held.check()
    assert await held.release() is True
    assert await model.join(waiting) > held.token
    await nothing_left(model, own_redis)


@every_model
async def test_connections_that_are_cut_are_made_again(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    locks, others = locks_on(own_redis), locks_on(own_redis)
    lost: list[Any] = []
    held = await locks.lock("a", ttl=10, on_lost=lost.append).acquire()
    waiting = model.spawn(take(others, "a", timeout=60))
    await model.until(lambda: queued(own_redis) == 1)
    for _ in range(3):
        await model.until(lambda: lost or own_redis.clients() == 2)
        own_redis.ask("CLIENT", "KILL", "TYPE", "normal")
        own_redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
        await model.sleep(0.1)
        held.check()
    assert await held.release() is True
    assert await model.join(waiting) > held.token
    assert not lost
    await nothing_left(model, own_redis)


@every_model
async def test_what_is_no_redis(model: Model, server: Memcached, locks_on: LocksOn) -> None:
    locks = locks_on(f"redis://{server.address}")
    begun = time.monotonic()
    with pytest.raises(pinyon.Error, match=r"(?i)not.* redis") as raised:
        await take(locks, "a", timeout=100)
    assert server.address in str(raised.value)
    assert time.monotonic() - begun < 60


@every_model
async def test_a_replica_is_followed_to_its_primary(model: Model, redis_with: RedisWith, locks_on: LocksOn) -> None:
    own_redis = redis_with("--repl-diskless-sync-delay", "0")
    replica = redis_with("--replicaof", own_redis.host, str(own_redis.port))
    await model.until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"))
    for handler, hello in (("auto", ()), ("pure", ()), ("auto", ("--rename-command", "HELLO", ""))):
        asked = replica if not hello else redis_with(*hello, "--replicaof", own_redis.host, str(own_redis.port))
        await model.until(lambda asked=asked: b"master_link_status:up" in asked.ask("INFO", "replication"))
        held = await locks_on(asked, handler=handler).lock("a", timeout=60).acquire()
        assert await locks_on(own_redis, handler=handler).try_lock("a") is None
        assert await held.release() is True


@every_model
async def test_a_replica_of_a_primary_that_is_gone(model: Model, redis_with: RedisWith, locks_on: LocksOn) -> None:
    replica = redis_with()
    nobody = free_port()
    replica.ask("REPLICAOF", "127.0.0.1", str(nobody))
    with pytest.raises(pinyon.ConnectError, match=rf"on 127\.0\.0\.1:{nobody}, the primary of this replica"):
        await take(locks_on(replica), "a", timeout=3)


@every_model
async def test_a_lock_outlives_a_switch_of_primaries(model: Model, redis_with: RedisWith, locks_on: LocksOn) -> None:
    """The old primary becomes a replica of the new one, as after a failover that was asked for."""
    first = redis_with("--repl-diskless-sync-delay", "0")
    second = redis_with("--replicaof", first.host, str(first.port), "--repl-diskless-sync-delay", "0")
    await model.until(lambda: b"master_link_status:up" in second.ask("INFO", "replication"))
    locks, others = locks_on(first), locks_on(first)
    held = await locks.lock("a", ttl=60, timeout=60).acquire()
    waiting = model.spawn(take(others, "a"))
    await model.until(lambda: queued(first) == 1)
    await model.until(lambda: replicated(second) == replicated(first))
    second.ask("REPLICAOF", "NO", "ONE")
    first.ask("REPLICAOF", second.host, str(second.port))
    other = await locks.lock("b", timeout=60).acquire()
    assert other.token > held.token
    assert await locks_on(second).try_lock("b") is None
    assert await held.release() is True
    assert await model.join(waiting) > held.token
    assert await other.release() is True


WRONG_LOGINS = {
    "wrong password": ("redis://:wrong-secret@{}", {}),
    "unknown user": ("redis://nobody:wrong-secret@{}", {}),
    "wrong password apart": ("redis://{}", {"password": "wrong-secret"}),
    "no password": ("redis://{}", {}),
}


@pytest.mark.parametrize("case", WRONG_LOGINS)
@pytest.mark.parametrize("hello", [True, False], ids=["RESP3", "RESP2"])
@every_model
async def test_a_wrong_password_is_told_of_and_never_shown(
    model: Model, hello: bool, case: str, redis_with: RedisWith, locks_on: LocksOn, caplog: pytest.LogCaptureFixture
) -> None:
    redis = redis_with("--requirepass", "right-secret", *(() if hello else ("--rename-command", "HELLO", "")))
    url, settings = WRONG_LOGINS[case]
    locks = locks_on(url.format(redis.address), **settings)
    with pytest.raises(pinyon.ConnectError, match=r"(?i)password|user") as raised:
        await take(locks, "a")
    shown = f"{raised.value} {raised.value!r} {locks!r} {raised.value.__dict__} {text_about(redis, caplog)}"
    assert redis.address in shown
    assert "secret" not in shown
    for right in (locks_on(f"redis://:right-secret@{redis.address}"), locks_on(redis, password=b"right-secret")):
        assert await take(right, "a")
        assert "secret" not in repr(right)


@every_model
async def test_a_server_that_may_throw_locks_out_is_warned_of_once(
    model: Model, redis_with: RedisWith, locks_on: LocksOn, caplog: pytest.LogCaptureFixture
) -> None:
    redis = redis_with("--maxmemory-policy", "allkeys-lru")
    locks = locks_on(redis)
    await take(locks, "a")
    await model.until(lambda: about(redis, caplog))
    redis.ask("CLIENT", "KILL", "TYPE", "normal")
    redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
    await take(locks, "a")
    await model.sleep(0.1)
    warnings = about(redis, caplog, "maxmemory-policy is allkeys-lru")
    assert [record.name for record in warnings] == ["pinyon.locks"]
    assert "noeviction" in warnings[0].getMessage()


@every_model
async def test_a_server_without_memory_left_gives_back_all_the_same(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    locks = locks_on(own_redis)
    held = await locks.lock("a").acquire()
    own_redis.ask("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(pinyon.ServerError, match="maxmemory"):
        await take(locks, "b")
    assert await held.extend(20)
    assert await held.release()
    own_redis.ask("CONFIG", "SET", "maxmemory", "0")
    assert await take(locks, "a", "b")
    await nothing_left(model, own_redis)


@every_model
async def test_a_database_and_a_unix_socket(
    model: Model, redis_with: RedisWith, locks_on: LocksOn, tmp_path: Any
) -> None:
    redis = redis_with(path=str(tmp_path / "redis.sock"))
    for url in (f"{redis.url}?db=3", redis.path):
        assert await take(locks_on(url), "a")
    assert {b"db3", b"db0"} <= {line.split(b":")[0] for line in redis.ask("INFO", "keyspace").splitlines()}
    with pytest.raises(pinyon.ConnectError, match="database"):
        await take(locks_on(f"{redis.url}?db=99"), "a")
