"""Locks that a majority of independent servers holds, in every concurrency model."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from locking import still_renewed
from models import Model, every_model
from servers import Redis

import pinyon

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quorum.md"
LocksOn = Callable[..., Any]


@pytest.fixture(scope="module")
def five() -> Iterator[list[Redis]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Redis()) for _ in range(5)]


@pytest.fixture
def servers(five: list[Redis]) -> list[Redis]:
    """Five empty servers."""
    for server in five:
        server.ask("FLUSHALL")
    return five


def urls(servers: list[Redis]) -> list[str]:
    return [server.url for server in servers]


def keepers(servers: list[Redis], name: str) -> int:
    """How many servers keep a lock of this name."""
    return sum(server.ask("EXISTS", f"{{pinyon}}:l:{name}") for server in servers)


@every_model
async def test_all_servers_keep_a_lock_and_give_it_back(model: Model, servers: list[Redis], locks_on: LocksOn) -> None:
    locks, others = locks_on(urls(servers)), locks_on(urls(servers))
    async with locks.lock("a", "b", timeout=60) as held:
        await model.until(lambda: keepers(servers, "a") == keepers(servers, "b") == 5)
        assert await others.try_lock("b") is None
        first = held.token
    async with others.lock("b", timeout=60) as held:
        assert held.token > first
    await model.until(lambda: not any(server.left_behind() for server in servers))


@every_model
async def test_a_waiter_gets_it_from_the_holder(model: Model, servers: list[Redis], locks_on: LocksOn) -> None:
    locks, others = locks_on(urls(servers)), locks_on(urls(servers), heartbeat=60)
    held = await locks.lock("a", timeout=60).acquire()

    async def wait() -> int:
        async with others.lock("a", timeout=60) as got:
            return got.token

    waiting = model.spawn(wait())
    await model.until(lambda: all(server.ask("ZCARD", "{pinyon}:#q") for server in servers))
    assert await held.release()
    assert await model.join(waiting) > held.token


@every_model
async def test_a_minority_that_is_gone_costs_nothing(model: Model, locks_on: LocksOn) -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Redis()) for _ in range(3)]
        locks, others = locks_on(urls(servers), ttl=6), locks_on(urls(servers), ttl=6)
        held = await locks.lock("a", timeout=60).acquire()
        servers[0].stop()
        await still_renewed(model, held)
        assert await others.try_lock("a") is None
        async with others.lock("b", timeout=60) as other:
            assert other.token > 0
        assert await held.extend(6)
        assert await held.release()
        async with others.lock("a", timeout=60) as other:
            assert other.token > held.token


@every_model
async def test_servers_that_were_just_started_vote_at_once_with_a_longest_ttl_of_zero(
    model: Model, locks_on: LocksOn
) -> None:
    with Redis() as first, Redis() as second, Redis() as third:
        locks = locks_on(urls([first, second, third]), longest_ttl=0)
        held = await locks.lock("a", timeout=0, ttl=60).acquire()
        assert await held.release()


@every_model
async def test_without_a_majority_the_error_names_each_server(model: Model, locks_on: LocksOn) -> None:
    with Redis() as alone, Redis() as first, Redis() as second:
        locks = locks_on(urls([alone, first, second]), connect_timeout=5)
        first.stop()
        second.stop()
        with pytest.raises(pinyon.ConnectError) as caught:
            await locks.lock("a", timeout=1).acquire()
        for server in (first, second):
            assert str(server.port) in str(caught.value)
        await model.until(lambda: not alone.left_behind())


@every_model
@pytest.mark.parametrize("refusing", [2, 3])
async def test_a_majority_that_refuses_the_release_is_no_loss(model: Model, locks_on: LocksOn, refusing: int) -> None:
    """The block's end says what the servers said, and the release goes on."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Redis()) for _ in range(3)]
        locks = locks_on(urls(servers), command_timeout=1, longest_ttl=0)

        def demand_replicas(count: int) -> None:
            for server in servers[:refusing]:
                server.ask("CONFIG", "SET", "min-replicas-to-write", count)

        async def hold() -> None:
            async with locks.lock("a", ttl=600, timeout=60) as held:
                await model.until(lambda: keepers(servers, "a") == 3)
                demand_replicas(1)
                assert not held.is_lost

        goes_on = 'the release of the lock "a" goes on in the background; at the latest the lock ends with its ttl'
        with pytest.raises(pinyon.ServerError, match=rf"NOREPLICAS.*; {goes_on} in \d+ s"):
            await hold()
        demand_replicas(0)
        await model.until(lambda: keepers(servers, "a") == 0)
        async with locks.lock("a", ttl=600, timeout=60) as held:
            assert not held.is_lost


@every_model
async def test_an_attempt_waits_for_a_majority_that_refuses(model: Model, locks_on: LocksOn) -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Redis("--min-replicas-to-write", "1")) for _ in range(3)]
        locks = locks_on(urls(servers), longest_ttl=0)
        with pytest.raises(pinyon.ServerError, match="NOREPLICAS"):
            await locks.lock("a", timeout=0.5).acquire()
        waiting = model.spawn(locks.lock("a", timeout=60).acquire())
        await model.sleep(0.1)
        for server in servers[:2]:
            server.ask("CONFIG", "SET", "min-replicas-to-write", "0")
        assert await (await model.join(waiting)).release()


@every_model
async def test_a_majority_that_is_away_is_waited_for(model: Model, locks_on: LocksOn) -> None:
    """A request that begins then, and one that waits in the queue."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Redis()) for _ in range(3)]
        locks, others = locks_on(urls(servers), longest_ttl=0), locks_on(urls(servers), longest_ttl=0, heartbeat=60)
        # What is not renewed does not ask again for the votes that it lost.
        held = await locks.lock("a", ttl=600, timeout=60, renew=False).acquire()
        queued = model.spawn(others.lock("a", timeout=120).acquire())
        await model.until(lambda: all(server.ask("ZCARD", "{pinyon}:#q") for server in servers))
        for server in servers[:2]:
            server.stop()
        fresh = model.spawn(locks.lock("b", timeout=120).acquire())
        await model.sleep(3)
        for server in servers[:2]:
            server.restart()
        assert await (await model.join(fresh)).release()
        # The majority has forgotten it.
        assert await (await model.join(queued)).release()
        del held


@pytest.mark.parametrize(
    ("servers", "settings", "said"),
    [
        (["redis://a", "redis://b"], {}, "2 servers"),
        (["redis://a", "redis://b", "redis://c", "redis://d"], {}, "4 servers"),
        ([f"redis://s{number}" for number in range(11)], {}, "11 servers"),
        (["redis://a", "redis://b", "redis://a:6379"], {}, "a:6379"),
        (["redis://a", "redis://b", "redis+sentinel://c/main"], {}, "is not one server"),
        (["redis://a", "redis://b", "redis://c"], {"hash_tags": "names"}, "hash_tags"),
        (["redis://a", "redis://b", "redis://c"], {"handler": "pure"}, "handler"),
        (["redis://a", "redis://b", "redis://c"], {"ttl": 20, "longest_ttl": 10}, "longest_ttl"),
        (["redis://a b", "redis://b", "redis://c"], {}, "contains a space"),
    ],
)
def test_what_makes_no_quorum_is_refused(servers: list[str], settings: dict[str, Any], said: str) -> None:
    with pytest.raises((pinyon.UsageError, pinyon.InvalidServers), match=said):
        pinyon.Locks(servers, **settings)


def test_what_a_quorum_does_not_have_is_refused_by_name(servers: list[Redis]) -> None:
    with pinyon.Locks(urls(servers)) as locks, locks.lock("a", timeout=60) as held:
        rate = locks.rate("a", limit=1, per=1)
        for refused in (lambda: held.wait(timeout=1), held.notify, lambda: locks.execute("PING"), rate.allow):
            with pytest.raises(pinyon.Unsupported, match=r"quorum|majority|several servers"):
                refused()


def test_the_locks_of_the_page_work(five: list[Redis]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    places = dict(zip(("10.0.0.1", "10.0.0.2", "10.0.0.3"), five))
    for place, server in places.items():
        assert place in block
        block = block.replace(f"redis://{place}", server.url)
    made: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), made)
    with made["locks"] as locks, locks.lock("report", timeout=60) as held:
        assert held.token > 0


@every_model
async def test_what_needs_one_server_is_refused_by_name(model: Model, servers: list[Redis], locks_on: LocksOn) -> None:
    locks = locks_on(urls(servers))
    held = await locks.lock("a", timeout=60).acquire()
    for use in (lambda: locks.lock("b", at_least=3).acquire(), held.hand_over):
        with pytest.raises(pinyon.Error, match="not possible with a quorum"):
            await use()
    alone = locks_on(servers[0])
    ticket = await (await alone.lock("c").acquire()).hand_over()
    with pytest.raises(pinyon.Error, match="adopting a lock is not possible with a quorum"):
        await locks.adopt(ticket).acquire()
    held.check()
    assert await locks.release_all() == 1
    await model.until(lambda: keepers(servers, "a") == 0)
