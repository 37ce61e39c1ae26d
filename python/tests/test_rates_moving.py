"""Rates on a cluster, while their slot moves, and over a failover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clusters import Cluster
from models import Model, every_model
from test_locks_cluster import cluster, plain_cluster, secure_cluster
from test_locks_sentinels import Watched, watched

LocksOn = Callable[..., Any]

__all__ = ["cluster", "plain_cluster", "secure_cluster", "watched"]


@every_model
@pytest.mark.parametrize("handler", ["script", "pure"])
async def test_rates_are_on_the_node_of_their_namespace(
    model: Model, cluster: Cluster, locks_on: LocksOn, handler: str
) -> None:
    for namespace in (f"rate-{model.name}-{handler}-{number}" for number in range(6)):
        settings = {"namespace": namespace, "handler": handler, **cluster.settings}
        rates = [locks_on(node, **settings).rate("a", limit=3, per=1000) for node in cluster.nodes]
        assert all([await rate.allow() for rate in rates])
        assert not await rates[0].allow()
        assert cluster.node_of(namespace).ask("EXISTS", f"{{{namespace}}}:r:a")


@every_model
async def test_a_tag_of_the_name_chooses_the_node(model: Model, cluster: Cluster, locks_on: LocksOn) -> None:
    namespace = f"tagged-{model.name}"
    locks = locks_on(cluster.nodes[0], namespace=namespace, hash_tags="names", **cluster.settings)
    for user in range(6):
        rate = locks.rate(f"{{user:{user}}}:api", limit=1, per=1000)
        assert await rate.allow()
        assert not await rate.allow()
        key = f"{{user:{user}}}{{{namespace}}}:r:{{user:{user}}}:api"
        assert cluster.node_of(f"user:{user}").ask("EXISTS", key)


@every_model
async def test_a_slot_that_moves_takes_its_rates_along(model: Model, cluster: Cluster, locks_on: LocksOn) -> None:
    namespace = f"moves-{model.name}"
    rate = locks_on(cluster.nodes[0], namespace=namespace, **cluster.settings).rate("a", limit=3, per=1000)
    assert await rate.allow(2)
    cluster.move(namespace)
    last = await rate.allow()
    assert last
    assert last.remaining == 0
    assert not await rate.allow()


@every_model
async def test_a_check_waits_while_its_slot_moves(model: Model, cluster: Cluster, locks_on: LocksOn) -> None:
    namespace = f"moving-{model.name}"
    settings = {"namespace": namespace, "command_timeout": 20.0, **cluster.settings}
    rate = locks_on(cluster.nodes[0], **settings).rate("a", limit=3, per=1000)
    assert await rate.allow()
    move = cluster.begin_move(namespace)
    move.take(f"{{{namespace}}}:r:a")
    before = move.refused()
    asking = model.spawn(rate.allow())
    await model.until(lambda: move.refused() > before + 2)
    move.end()
    assert (await model.join(asking)).remaining == 1


@every_model
async def test_a_rate_of_a_service_follows_its_primary(
    model: Model, watched: Callable[..., Watched], locks_on: LocksOn
) -> None:
    service = watched()
    await model.until(lambda: b"master_link_status:up" in service.replica.ask("INFO", "replication"))
    rate = locks_on(service.url).rate("a", limit=1, per=100_000)
    assert await rate.allow()
    await model.until(lambda: service.replica.ask("EXISTS", "{pinyon}:r:a"))
    await model.until(service.fail_over)
    # The copy of the replica counts, whichever of both answers.
    assert not await model.eventually(rate.allow)
