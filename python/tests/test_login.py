"""Logging in to memcached, in every concurrency model. The password appears in no text."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from faulty import FaultyServer
from models import Model, every_model
from playing import everything_said
from servers import PASSWORD, GuardedMemcached, Memcached, Redis

import pinyon

Connect = Callable[..., Any]
LocksOn = Callable[..., Any]


@every_model
async def test_a_server_lets_in_who_logs_in(
    model: Model, guarded_memcached: GuardedMemcached, connect: Connect
) -> None:
    for settings in (
        {"username": "app", "password": PASSWORD},
        {"username": "app", "password": PASSWORD.encode()},
        {"username": "other", "password": "word"},
    ):
        client = connect(guarded_memcached, **settings)
        assert await client.set("key", "value")
        assert await client.get_many(["key", "missing"]) == {"key": "value"}
        async with client.quiet() as batch:
            await batch.set("quiet", "value")
        assert await client.get("quiet") == "value"


@every_model
async def test_a_server_that_wants_no_login_keeps_nothing_of_it(
    model: Model, server: Memcached, connect: Connect
) -> None:
    client = connect(server, username="app", password=PASSWORD)
    assert await client.set("key", "value")
    assert not server.holds("auth")


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "the wrong password": (
        {"username": "app", "password": "battery-staple"},
        'the server refused the login of user "app": correct "username" and "password"',
    ),
    "the wrong user": (
        {"username": "nobody", "password": PASSWORD},
        'the server refused the login of user "nobody": correct "username" and "password"',
    ),
    "no login": ({}, 'the server wants a login: set "username" and "password"'),
}


@pytest.mark.parametrize("case", REFUSALS)
@every_model
async def test_a_refusal_names_the_server_and_the_remedy(
    model: Model, guarded_memcached: GuardedMemcached, connect: Connect, case: str
) -> None:
    settings, says = REFUSALS[case]
    client = connect(guarded_memcached, **settings)
    for _ in range(3):
        with pytest.raises((pinyon.ConnectError, pinyon.ServerDown), match=says) as raised:
            await client.get("key")
        assert str(raised.value).startswith(f"{guarded_memcached.address}: get: ")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"username": "app"}, "username and password go together: give both"),
        ({"password": PASSWORD}, "username and password go together: give both"),
        ({"username": "", "password": PASSWORD}, "username must be 1 to 250 bytes without spaces"),
        ({"username": "a b", "password": PASSWORD}, "username must be 1 to 250 bytes without spaces"),
        ({"username": "app", "password": f"{PASSWORD}\r\nflush_all"}, "password must be 1 to 250 bytes without spaces"),
        ({"username": "app", "password": f"{PASSWORD} "}, "password must be 1 to 250 bytes without spaces"),
        ({"username": "app", "password": PASSWORD * 20}, "password must be 1 to 250 bytes without spaces"),
        ({"username": "app", "password": 5}, "password must be str or bytes, not int"),
        ({"username": "app", "password": f"{PASSWORD}\ud800"}, "the password has a lone surrogate"),
    ],
)
@every_model
async def test_a_login_that_cannot_be_sent(model: Model, connect: Connect, settings: dict[str, Any], says: str) -> None:
    with pytest.raises((pinyon.UsageError, pinyon.UnsupportedType), match=says) as raised:
        connect("127.0.0.1:1", **settings)
    assert PASSWORD not in str(raised.value)


@every_model
async def test_the_password_is_in_no_text(
    model: Model,
    guarded_memcached: GuardedMemcached,
    redis_with: Callable[..., Redis],
    connect: Connect,
    locks_on: LocksOn,
    faulty: Callable[..., FaultyServer],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "battery-staple"
    login = {"username": "app", "password": secret}
    texts = []

    # Other kinds of servers may repeat what they are sent.
    refused = faulty(version=b"CLIENT_ERROR what is app %s\r\n" % secret.encode())
    echoed = faulty(version=b"set auth 0 -1 18\r\napp %s\r\n" % secret.encode())
    cut = faulty(version=b"x" * 55 + b"%s\r\n" % secret.encode())
    for place in (guarded_memcached, refused, echoed, cut):
        client = connect(place, **login)
        texts += [repr(getattr(client, "wrapped", client)), *_described(client)]
        for _ in range(3):
            with pytest.raises(pinyon.Error) as raised:
                await client.get("key")
            texts.append(everything_said(raised.value))
    redis = redis_with()
    redis.ask("ACL", "SETUSER", "app", "on", f">{PASSWORD}", "+@all", "~*", "&*")
    for settings in ({"username": "app", "password": secret}, {}):
        url = redis.url if settings else redis.url.replace("//", f"//app:{secret}@")
        locks = locks_on(url, **settings)
        texts.append(repr(locks))
        with pytest.raises(pinyon.ConnectError, match="refused the password of user") as raised:
            await locks.try_lock("name")
        texts.append(everything_said(raised.value))
    texts += [caplog.text, *capfd.readouterr()]
    assert all("127.0.0.1" in text or not text for text in texts[:3])
    assert not [text for text in texts if secret in text]


def _described(client: Any) -> list[str]:
    described: list[str] = getattr(client, "wrapped", client).describe()
    return described
