"""Releases and attempts that a server refuses while another one takes over: they reach the new primary."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clusters import Cluster
from locking import nothing_left
from models import Model, every_model
from pinyon_verify.ports import free_port
from servers import Redis
from test_locks_sentinels import Watched, watched

import pinyon

__all__ = ["watched"]

LocksOn = Callable[..., Any]
#: Seconds that no test waits for.
LONG = 600
LOCK = "{pinyon}:l:a"


@every_model
@pytest.mark.parametrize(("serves", "said"), [("no", "MASTERDOWN"), ("yes", "READONLY")])
async def test_a_demoted_primary_refuses_until_sentinels_name_another(
    model: Model, watched: Callable[..., Watched], locks_on: LocksOn, serves: str, said: str
) -> None:
    service = watched("--replica-serve-stale-data", serves)
    await model.until(lambda: b"master_link_status:up" in service.replica.ask("INFO", "replication"))
    settings = {"command_timeout": 1, "connect_timeout": 60}
    locks, others = locks_on(service.url, **settings), locks_on(service.url, **settings)
    held = await locks.lock("a", ttl=LONG, timeout=60).acquire()
    assert not await others.is_locked("nothing"), "it is connected"
    await model.until(lambda: service.replica.ask("EXISTS", LOCK) == 1)
    # It follows nobody, and refuses.
    service.primary.ask("REPLICAOF", "127.0.0.1", free_port())
    assert said in str(service.primary.ask("GET" if serves == "no" else "DEL", LOCK))
    with pytest.raises(pinyon.Error, match=r'the release of the lock "a" goes on in the background'):
        await held.release()
    waiting = model.spawn(others.lock("a", ttl=LONG, timeout=120).acquire())
    await model.until(service.fail_over)
    got = await model.join(waiting)
    assert got.token > held.token
    assert service.replica.ask("EXISTS", LOCK) == 1, "the new primary has it"
    assert await got.release()
    await nothing_left(model, service.replica)


@pytest.fixture(scope="module")
def doubled() -> Iterator[tuple[Cluster, list[Redis]]]:
    """A cluster, and the two nodes of which one is the primary of the namespace ``pinyon`` and one its replica."""
    with tempfile.TemporaryDirectory() as folder, Cluster(folder) as cluster:
        primary = cluster.node_of("pinyon")
        yield cluster, [primary, cluster.add_replica("127.0.0.4", folder, primary)]


def slot_beside(cluster: Cluster, primary: Redis) -> int:
    """A slot of this node that has no locks."""
    first, last = next(
        (first, last) for first, last, owner, *_ in primary.ask("CLUSTER", "SLOTS") if owner[1] == primary.port
    )
    mine: int = cluster.slot("pinyon")
    return int(first if first != mine else last)


@every_model
@pytest.mark.parametrize("taken_over", [False, True], ids=["recovers", "is taken over"])
async def test_a_cluster_that_is_down_for_a_while(
    model: Model, doubled: tuple[Cluster, list[Redis]], locks_on: LocksOn, taken_over: bool
) -> None:
    cluster, pair = doubled
    await model.until(lambda: any(b"master_link_status:up" in node.ask("INFO", "replication") for node in pair))
    replica, primary = sorted(pair, key=lambda node: node.ask("ROLE")[0] == b"master")
    url = f"redis+cluster://{','.join(node.address for node in (primary, replica))}"
    settings = {"command_timeout": 1, "connect_timeout": 60}
    locks, others = locks_on(url, **settings), locks_on(url, **settings)
    held = await locks.lock("a", ttl=LONG, timeout=60).acquire()
    assert not await others.is_locked("nothing"), "it is connected"
    slot = slot_beside(cluster, primary)
    # It serves no longer all slots, and as the cluster is to be whole, none.
    assert primary.ask("CLUSTER", "DELSLOTS", slot) == "OK"
    await model.until(lambda: "CLUSTERDOWN" in str(primary.ask("GET", LOCK)))
    try:
        with pytest.raises(pinyon.Error, match=r'the release of the lock "a" goes on in the background'):
            await held.release()
        waiting = model.spawn(others.lock("a", ttl=LONG, timeout=120).acquire())
        if taken_over:
            replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
            await model.until(lambda: replica.ask("ROLE")[0] == b"master")
    finally:
        primary.ask("CLUSTER", "ADDSLOTS", slot)
    got = await model.join(waiting)
    assert got.token > held.token
    assert await got.release()
    await nothing_left(model, replica if taken_over else primary)
