"""Invalid arguments, names with placeholders, and arbitrary commands on the same connection."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from locking import nothing_left
from models import Model, every_model
from servers import Redis
from waiting import PATIENT

import pinyon
import pinyon.aio

LocksOn = Callable[..., Any]

NAMES: dict[str, tuple[tuple[Any, ...], type[pinyon.Error], str]] = {
    "none": ((), pinyon.InvalidName, "a lock needs at least one name"),
    "1001": (tuple(f"n{n}" for n in range(1001)), pinyon.InvalidName, "1001 names for one lock: at most 1000"),
    "NUL": (("a", "b\0c"), pinyon.InvalidName, "has a NUL at byte 1"),
    "empty": (("a", ""), pinyon.InvalidName, "a lock's name is empty"),
    "10 KB": (("x" * 10_000,), pinyon.InvalidName, "has 10000 bytes: at most 1024"),
    "a number": ((5,), pinyon.UnsupportedType, "names of locks are str or bytes, not int"),
    "a list": ((["a", "b"],), pinyon.UnsupportedType, "names of locks are str or bytes, not list"),
    "a lone surrogate": (("\ud800",), pinyon.InvalidName, "lone surrogate"),
}
TIMES: dict[str, tuple[dict[str, Any], str]] = {
    "ttl 0": ({"ttl": 0}, "ttl must be"),
    "ttl -1": ({"ttl": -1}, "ttl must be"),
    "ttl nan": ({"ttl": math.nan}, "ttl must be"),
    "ttl 0.1 ms": ({"ttl": 0.0001}, "ttl must be at least a millisecond"),
    "timeout -1": ({"timeout": -1}, "timeout must be a number of seconds, 0 or more, not -1"),
    "timeout nan": ({"timeout": math.nan}, "timeout must be a number of seconds"),
    "max_hold -1": ({"max_hold": -1}, "max_hold"),
}


@pytest.mark.parametrize("case", NAMES)
@every_model
async def test_names_that_no_lock_can_have(model: Model, case: str, redis: Redis, locks_on: LocksOn) -> None:
    names, kind, says = NAMES[case]
    locks = locks_on(redis)
    for use in (lambda: locks.lock(*names).acquire(), lambda: locks.try_lock(*names), lambda: locks.status(*names)):
        with pytest.raises(kind, match=says) as raised:
            await use()
        assert len(str(raised.value)) < 200
    assert redis.keys() == set()


@pytest.mark.parametrize("case", TIMES)
@every_model
async def test_times_that_make_no_sense(model: Model, case: str, redis: Redis, locks_on: LocksOn) -> None:
    settings, says = TIMES[case]
    with pytest.raises(pinyon.UsageError, match=says):
        await locks_on(redis).lock("a", **settings).acquire()
    assert redis.keys() == set()


async def awaited(held: object) -> None: ...


@pytest.mark.parametrize("callback", [5, awaited], ids=["a number", "a coroutine function"])
@every_model
async def test_callbacks_that_cannot_be_called_leave_nothing_locked(
    model: Model, callback: Any, redis: Redis, locks_on: LocksOn
) -> None:
    locks = locks_on(redis)
    with pytest.raises(pinyon.UsageError, match=r"on_lost (must be a function, which )?is called"):
        await locks.lock("a", on_lost=callback).acquire()
    with pytest.raises(pinyon.UsageError, match=r"on_lost (must be a function, which )?is called"):
        await locks.try_lock("a", on_lost=callback)
    assert redis.keys() == set()
    async with locks.lock("a") as held:
        with pytest.raises(pinyon.UsageError, match=r"on_lost (must be a function, which )?is called"):
            held.on_lost(callback)


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "namespace empty": ({"namespace": ""}, "the namespace is empty"),
    "namespace with a brace": ({"namespace": "a}b"}, "would end the keys' hash tag"),
    "namespace too long": ({"namespace": "x" * 300}, "300 bytes: at most 256"),
    "handler": ({"handler": "lua"}, '"auto", "script" or "pure", not "lua"'),
    "fairness": ({"fairness": "lifo"}, '"fifo" or "throughput", not "lifo"'),
    "ttl": ({"ttl": 0}, "ttl must be a positive number of seconds, not 0"),
    "timeout": ({"timeout": -1}, "timeout must be a number of seconds, 0 or more, not -1"),
    "heartbeat": ({"heartbeat": 0}, "heartbeat"),
    "command_timeout": ({"command_timeout": -1}, "command_timeout"),
    "connect_timeout": ({"connect_timeout": math.nan}, "connect_timeout"),
    "another scheme": ({"url": "http://:secret@localhost"}, "begins with http://, not with redis://"),
    "no scheme": ({"url": "localhost:6379"}, "write redis://"),
    "TLS and none": ({"url": "rediss://localhost", "tls": False}, "but tls is false: write redis://"),
    "TLS that is none": ({"tls": "yes"}, "True, False or a pinyon.Tls, not str"),
    "TLS on a path": ({"url": "unix:///run/redis.sock", "tls": True}, "set server_name"),
    "a port that is none": ({"url": "redis://:secret@localhost:http"}, "malformed"),
    "a password with a slash": ({"url": "redis://:secret/5@localhost"}, "in a user or password as %2F"),
    "port 0": ({"url": "redis://localhost:0"}, "port 0"),
    "port 70000": ({"url": "redis://:secret@localhost:70000"}, "malformed"),
    "a database that is none": ({"url": "redis://localhost/first"}, "'first', which is not a number"),
    "an unknown setting": ({"url": "redis://:secret@localhost?ttl=5"}, "not known: ttl"),
    "a socket without a path": ({"url": "unix://"}, "has no path"),
    "bytes": (
        {"url": b"redis://localhost"},
        'url must be str such as "redis://host:port", or a list of these, not bytes',
    ),
    "a bracket": ({"url": "redis://:secret@[::1"}, "malformed"),
}


@pytest.mark.parametrize("case", SETTINGS)
@every_model
async def test_settings_that_make_no_sense(model: Model, case: str) -> None:
    settings, says = SETTINGS[case]
    with pytest.raises(pinyon.UsageError, match=says) as raised:
        model.locks(**{"url": "redis://localhost", **settings})
    assert "secret" not in str(raised.value)


def test_what_a_url_says() -> None:
    for url, server in {
        "redis://": "127.0.0.1:6379",
        "redis://host": "host:6379",
        "redis://user:p%40ss@host:7000/5": "host:7000",
        "redis://[::1]:7000": "[::1]:7000",
        "/run/redis.sock": "/run/redis.sock",
        "unix:///run/my%20redis.sock?db=2": "/run/my redis.sock",
    }.items():
        locks = pinyon.Locks(url, namespace="app")
        assert locks.server == server
        assert repr(locks) == f"<pinyon.locks.Locks {server}, namespace 'app'>"


@every_model
async def test_namespaces_are_apart(model: Model, redis: Redis, locks_on: LocksOn) -> None:
    odd = ["app", "app{", "spaced name", b"\xff\x00", "ключ", "x" * 256]
    held = [await locks_on(redis, namespace=namespace).lock("a", timeout=0).acquire() for namespace in odd]
    assert len(redis.left_behind()) == len(odd)
    assert all([await each.release() for each in held])
    await nothing_left(model, redis)


@every_model
async def test_any_command_on_the_same_connection(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    locks = locks_on(own_redis)
    assert await locks.execute("SET", "k", "v") == "OK"
    assert await locks.execute("get", b"k") == b"v"
    assert await locks.execute("GET", "missing") is None
    assert await locks.execute("SET", "n", 5, "EX", 100) == "OK"
    assert await locks.execute("INCRBYFLOAT", "n", 2.5) == b"7.5"
    assert await locks.execute("RPUSH", "l", "a", b"\xff") == 2
    assert await locks.execute("LRANGE", "l", 0, -1) == [b"a", b"\xff"]
    assert await locks.execute("HSET", "h", "f", 1) == 1
    assert await locks.execute("HGETALL", "h") == {b"f": b"1"}
    assert await locks.execute("EVAL", "return {1, {'a', false}}", 0) == [1, [b"a", None]]
    large = b"x" * 3_000_000
    assert await locks.execute("SET", "large", large) == "OK"
    assert await locks.execute("GET", "large") == large
    with pytest.raises(pinyon.ServerError, match="WRONGTYPE"):
        await locks.execute("INCR", "l")
    with pytest.raises(pinyon.ServerError, match="unknown command"):
        await locks.execute("NOSUCH")
    for parts in (("SET", "k", True), ("SET", "k", None), ("SET", "k", ["v"]), (5, "k")):
        with pytest.raises(pinyon.UnsupportedType):
            await locks.execute(*parts)
    refused = ["subscribe c", "MULTI", "Select 1", "QUIT", "BLPOP l 0", "XREAD BLOCK 0 STREAMS s 0", "CLIENT REPLY OFF"]
    for command in refused:
        for parts in (command.split(), command.encode().split()):
            with pytest.raises(pinyon.UsageError, match="a connection of your own"):
                await locks.execute(*parts)
    with pytest.raises(pinyon.UsageError, match="at least its name"):
        await locks.execute()
    assert await locks.execute("CLIENT", "LIST")
    assert own_redis.clients() == 1


def test_functions_that_run_while_names_are_locked(redis: Redis) -> None:
    locks = pinyon.Locks(redis.url, **PATIENT)

    @locks.synchronized("report:{user_id}", "all:{kind}:{0}", ttl=5)
    def report(user_id: int, *more: int, kind: str = "daily", **rest: int) -> Any:
        """Says it."""
        return sorted(key for key in redis.left_behind()), more, rest

    assert report(7, 8, kind="odd", x=1) == ([b"{pinyon}:l:all:odd:7", b"{pinyon}:l:report:7"], (8,), {"x": 1})
    assert report(user_id=9)[0] == [b"{pinyon}:l:all:daily:9", b"{pinyon}:l:report:9"]
    assert (report.__name__, report.__doc__) == ("report", "Says it.")
    with pytest.raises(TypeError, match="user_id"):
        report()

    @locks.lock("whole")
    def whole() -> bool:
        return locks.is_locked("whole")

    @locks.synchronized("{sometimes}")
    def unfilled(**rest: int) -> None: ...

    with pytest.raises(pinyon.UsageError, match=r"fills 'sometimes' in \{sometimes\}"):
        unfilled()
    assert whole() is True
    assert whole() is True
    assert not redis.left_behind()
    locks.close()


def test_coroutine_functions_that_run_while_names_are_locked(redis: Redis) -> None:
    locks = pinyon.aio.Locks(redis.url, **PATIENT)

    @locks.synchronized("report:{user_id}")
    async def report(user_id: int) -> set[bytes]:
        return redis.left_behind()

    @locks.lock("whole")
    async def whole() -> bool:
        return await locks.is_locked("whole")

    async def scenario() -> None:
        assert await report(user_id=5) == {b"{pinyon}:l:report:5"}
        assert await asyncio.gather(*(whole() for _ in range(5))) == [True] * 5
        locks.close()

    asyncio.run(scenario())
    assert not redis.left_behind()


def generator() -> Any:
    yield 1


async def coroutine() -> None: ...


def test_functions_whose_body_runs_later_are_refused() -> None:
    locks, aio = pinyon.Locks("redis://localhost"), pinyon.aio.Locks("redis://localhost")
    for decorate in (locks.lock("a"), locks.synchronized("a")):
        for function, says in ((generator, "a generator"), (coroutine, r"locks of pinyon\.aio")):
            with pytest.raises(pinyon.UsageError, match=says):
                decorate(function)
    for decorate_coroutine in (aio.lock("a"), aio.synchronized("a")):
        for function, says in ((generator, "a generator"), (len, "locks of pinyon$")):
            with pytest.raises(pinyon.UsageError, match=says):
                decorate_coroutine(function)
    for templates in ((), ("{",), (5,), (len,)):
        for each in (locks, aio):
            with pytest.raises(pinyon.UsageError, match="names"):
                each.synchronized(*templates)  # type: ignore[arg-type]
    for template in ("{missing}", "{missing.id}", "{missing[0]}:{obj}"):
        with pytest.raises(pinyon.UsageError, match="no argument of len fills 'missing'"):
            locks.synchronized(template)(len)
    with pytest.raises(pinyon.UsageError, match="5 is no function"):
        locks.lock("a")(5)  # type: ignore[type-var]
    with pytest.raises(pinyon.UnsupportedType, match="names of locks are str or bytes, not builtin_function_or_method"):
        locks.lock(len)  # type: ignore[arg-type]


def test_a_call_outside_of_a_loop_returns_a_coroutine(redis: Redis) -> None:
    locks = pinyon.aio.Locks(redis.url)
    assert asyncio.run(locks.force_release("a")) == 0
    assert asyncio.run(locks.is_locked("a")) is False


@every_model
async def test_a_password_that_is_none(model: Model) -> None:
    with pytest.raises(pinyon.UnsupportedType, match="password must be str or bytes, not int"):
        model.locks("redis://localhost", password=5)
