"""Locks on servers, proxies and test doubles that are nearly Redis."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from command_line import run
from logs import about, text_about
from models import Model, every_model
from nearly_redis import HELLO, UNDECLARED, Command, Miniredis, NearlyRedis, refuses_hello, refuses_undeclared
from servers import Redis

import pinyon

Nearly = Callable[..., NearlyRedis]


@pytest.fixture
def nearly(redis: Redis) -> Iterator[Nearly]:
    """Makes relays to the server."""
    with contextlib.ExitStack() as stack:

        def make(refuse: Callable[[Command], str | None], **settings: Any) -> NearlyRedis:
            relay = NearlyRedis(redis.address, refuse, **settings)
            stack.callback(relay.close)
            return relay

        yield make


async def use(model: Model, locks_on: Callable[..., Any], url: str, **settings: Any) -> None:
    """A lock is held, awaited, handed over to one that wants more, and forgotten."""
    holder, waiter = (locks_on(url, timeout=60, **settings) for _ in range(2))
    held = await holder.lock("a").acquire()
    waiting = model.spawn(waiter.lock("a", "b").acquire())
    await model.until(lambda: _waits(holder, settings))
    assert await holder.is_locked("a")
    assert await waiter.try_lock("a") is None
    assert await held.extend(20)
    assert await held.release()
    got = await model.join(waiting)
    assert got.token > held.token
    assert await got.release()
    assert not await holder.is_locked("a", "b")


async def _waits(locks: Any, settings: dict[str, Any]) -> bool:
    return settings.get("handler") == "pure" or await locks.waiting("a") == 1


@every_model
@pytest.mark.parametrize("words", HELLO.values(), ids=HELLO)
async def test_hello_may_be_refused_in_any_words(
    model: Model, nearly: Nearly, locks_on: Callable[..., Any], words: str
) -> None:
    relay = nearly(refuses_hello(words))
    await use(model, locks_on, relay.url)
    assert relay.refused >= 2


@every_model
async def test_the_protocol_can_be_asked_for(model: Model, nearly: Nearly, locks_on: Callable[..., Any]) -> None:
    relay = nearly(lambda command: "ERR no" if command[0] == b"HELLO" else None)
    await use(model, locks_on, relay.url, protocol=2)
    await use(model, locks_on, f"{relay.url}?protocol=2")
    assert relay.refused == 0
    with pytest.raises(pinyon.ConnectError, match='leave out "protocol", or set it to 2'):
        await locks_on(relay.url, protocol=3).try_lock("a")


def test_a_connection_that_is_cut_at_hello_may_lead_to_a_proxy(nearly: Nearly) -> None:
    relay = nearly(lambda command: "" if command[0] == b"HELLO" else None, cuts=True)
    with (
        pinyon.Locks(relay.url) as locks,
        pytest.raises(
            pinyon.ConnectionLost, match='asked HELLO: is it a proxy that does not know HELLO, set "protocol"'
        ),
    ):
        locks.try_lock("a")


@every_model
@pytest.mark.parametrize("words", UNDECLARED.values(), ids=UNDECLARED)
async def test_keys_are_declared_where_the_server_demands_it(
    model: Model, nearly: Nearly, locks_on: Callable[..., Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    relay = nearly(refuses_undeclared(words))
    with caplog.at_level(logging.WARNING, "pinyon.locks"):
        await use(model, locks_on, relay.url)
    assert relay.refused >= 2
    assert not about(relay, caplog), "it goes on with scripts"


@every_model
async def test_without_any_script_locks_go_by_plain_commands(
    model: Model, nearly: Nearly, locks_on: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(command: Command) -> str | None:
        return UNDECLARED["hosted"] if command[0] in (b"FCALL", b"EVALSHA") and len(command) > 5 else None

    relay = nearly(refuse)
    with caplog.at_level(logging.WARNING, "pinyon.locks"):
        locks = locks_on(relay.url)
        async with locks.lock("a"):
            assert await locks.is_locked("a")
        # Another thread may write the line.
        said = "permit scripts to use keys that they have not declared"
        await model.until(lambda: said in text_about(relay, caplog))


@every_model
async def test_a_user_may_be_limited_to_a_prefix(model: Model, redis: Redis, locks_on: Callable[..., Any]) -> None:
    redis.ask(
        "ACL", "SETUSER", "tenant", "on", ">secret", "+@all", "resetkeys", "~tenant:*", "resetchannels", "&tenant:*"
    )
    url = redis.url.replace("://", "://tenant:secret@")
    await use(model, locks_on, url, namespace="app", prefix="tenant:")
    await use(model, locks_on, url, namespace="app", prefix="tenant:", handler="pure")
    assert {key for key in redis.ask("KEYS", "*") if not key.endswith(b"#p")} == {b"tenant:{app}:#f"}


@every_model
@pytest.mark.parametrize("handler", ["auto", "pure"])
async def test_a_server_may_accept_resp3_and_speak_resp2(
    model: Model, redis: Redis, locks_on: Callable[..., Any], handler: str
) -> None:
    """As Go's double of Redis for tests."""
    with Miniredis(redis.address) as relay:
        await use(model, locks_on, relay.url, handler=handler)


@every_model
@pytest.mark.parametrize("handler", ["auto", "pure"])
async def test_the_double_of_redis_for_tests(model: Model, locks_on: Callable[..., Any], handler: str) -> None:
    """It accepts RESP3, and then confirms a subscription as in RESP2."""
    fakeredis = pytest.importorskip("fakeredis")
    server = fakeredis.TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        host, port = server.server_address
        await use(model, locks_on, f"redis://{host}:{port}", handler=handler)
    finally:
        server.shutdown()
        server.server_close()


@every_model
@pytest.mark.parametrize("handler", ["script", "pure"])
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("SET", "closed"), 'a value of another program ("closed")'),
        (("SET", "closed until noon"), 'a value of another program ("closed until noon")'),
        (("LPUSH", "closed"), "a value of another program (no string)"),
    ],
    ids=["word", "words", "list"],
)
async def test_what_is_there_is_shown_in_the_same_words(
    model: Model,
    redis: Redis,
    locks_on: Callable[..., Any],
    handler: str,
    command: tuple[str, str],
    words: str,
) -> None:
    redis.ask(command[0], "{pinyon}:l:a", command[1])
    locks = locks_on(redis.url, handler=handler)
    assert await locks.is_locked("a")
    assert await locks.owner("b", "a") == words
    (status,) = await locks.status("a")
    assert (status.holder, status.token, status.remaining) == (words, None, None)
    with pytest.raises(pinyon.LockTimeout, match=re.escape(words)):
        await locks.lock("a", timeout=0.5).acquire()
    assert words in run("show", "a", url=redis.url).stdout
    assert redis.ask("TYPE", "{pinyon}:l:a") == ("list" if command[0] == "LPUSH" else "string"), (
        "nothing was overwritten"
    )
    assert await locks.force_release("a") == 1
    assert not await locks.is_locked("a")
    async with locks.lock("a"):
        assert await locks.is_locked("a")
