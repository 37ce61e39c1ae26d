"""Locks on a server that Sentinels watch, and what programs are told of Sentinels that are of no help."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from models import Model, every_model
from pinyon_verify.ports import free_port
from servers import Redis, Sentinel

import pinyon

LocksOn = Callable[..., Any]


class Watched:
    """A primary with a replica, and Sentinels that watch it."""

    def __init__(self, primary: Redis, replica: Redis, sentinels: list[Sentinel]) -> None:
        self.primary = primary
        self.replica = replica
        self.sentinels = sentinels

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(each.address for each in self.sentinels)}/main"

    def fail_over(self) -> bool:
        """Begins a failover, unless one is under way. Returns whether the replica has become the primary."""
        self.sentinels[0].ask("SENTINEL", "FAILOVER", "main")
        with contextlib.suppress(ConnectionError):  # A Sentinel ends the connections of a server that it promotes.
            return bool(self.replica.ask("ROLE")[0] == b"master")
        return False


@pytest.fixture
def watched() -> Iterator[Callable[..., Watched]]:
    """Starts servers, with arguments, and one or more Sentinels, with lines of configuration."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, configuration: tuple[str, ...] = (), count: int = 1) -> Watched:
            primary = stack.enter_context(Redis("--repl-diskless-sync-delay", "0", *arguments))
            follow = ("--replicaof", primary.host, str(primary.port), "--repl-diskless-sync-delay", "0")
            replica = stack.enter_context(Redis(*follow, *arguments))
            lines = (f"sentinel monitor main {primary.host} {primary.port} {count // 2 + 1}", *configuration)
            sentinels = [stack.enter_context(Sentinel(*lines)) for _ in range(count)]
            return Watched(primary, replica, sentinels)

        yield start


@every_model
async def test_a_lock_of_a_service_follows_its_primary(
    model: Model, watched: Callable[..., Watched], locks_on: LocksOn
) -> None:
    service = watched()
    await model.until(lambda: b"master_link_status:up" in service.replica.ask("INFO", "replication"))
    locks, others = locks_on(service.url), locks_on(service.url)
    held = await locks.lock("a", ttl=60, timeout=60).acquire()
    assert await others.try_lock("a") is None
    assert await locks_on(service.primary).try_lock("a") is None
    await model.until(service.fail_over)
    probe, give_up = locks_on(service.replica), time.monotonic() + 60
    while True:
        # The old primary grants locks until it is demoted, or until the Sentinel tells of the new one.
        other = await others.lock("b", timeout=60).acquire()
        assert other.token > held.token
        if await probe.try_lock("b") is None:
            break
        assert time.monotonic() < give_up, "it stays with the old primary"
        await model.sleep(0.05)
        await other.release()
    assert await held.release() is True


@every_model
async def test_the_login_of_sentinels_is_their_own(
    model: Model, watched: Callable[..., Watched], locks_on: LocksOn
) -> None:
    service = watched("--requirepass", "of-servers", configuration=("requirepass of-sentinels",))
    url = service.url.replace("//", "//:of-servers@")
    async with locks_on(url, sentinel_password="of-sentinels").lock("a", timeout=60) as held:
        assert held.token > 0
    with pytest.raises(pinyon.ConnectError, match="requires a password"):
        await locks_on(url).try_lock("a")
    with pytest.raises(pinyon.ConnectError, match="refused the password"):
        await locks_on(url, sentinel_password="another").try_lock("a")


@every_model
async def test_sentinels_of_no_help_are_named(model: Model, watched: Callable[..., Watched], locks_on: LocksOn) -> None:
    service = watched(count=1)
    sentinel, nobody = service.sentinels[0].address, f"127.0.0.1:{free_port()}"
    for url, told in [
        (f"redis+sentinel://{sentinel}/other", f"{sentinel} does not know the service 'other'"),
        (f"redis+sentinel://{service.primary.address}/main", "this is no Sentinel"),
        (
            f"redis+sentinel://{sentinel},{nobody}/main",
            rf"{sentinel} names 127.*; {nobody} cannot be asked \(cannot conn",
        ),
        (f"redis://{sentinel}", r"this is a Sentinel, which keeps no locks: write redis\+sentinel://"),
    ]:
        with pytest.raises(pinyon.ConnectError, match=told):
            await locks_on(url, command_timeout=5).try_lock("a")


@pytest.mark.parametrize(
    ("url", "settings", "why"),
    [
        ("redis+sentinel://a,b,c", {}, "names no service"),
        ("redis+sentinel://a,b,a/main", {}, "names the Sentinel a:26379 twice"),
        ("redis://a", {"sentinel_password": "secret"}, "sentinel_password is for Sentinels, but the URL names none"),
    ],
)
def test_mistakes_in_the_settings_of_sentinels(url: str, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(pinyon.UsageError, match=why):
        pinyon.Locks(url, **settings)
