"""Locks on a cluster of three real nodes: a namespace is one hash tag, so one node has all of it."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest
from models import Model, every_model
from servers import Redis


class Cluster:
    """Three nodes, each with a third of the slots."""

    def __init__(self, folder: str) -> None:
        settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--dir", folder]
        self.nodes = [
            Redis(*settings, "--cluster-config-file", f"{folder}/{index}.conf", "--dbfilename", f"{index}.rdb")
            for index in range(3)
        ]

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        addresses = [f"127.0.0.1:{node.port}" for node in self.nodes]
        create = ["redis-cli", "--cluster", "create", *addresses, "--cluster-yes"]
        subprocess.run(create, check=True, capture_output=True, timeout=30)
        self.wait_until(lambda: all(b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes))

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        give_up = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < give_up, "the cluster did not come to that"
            time.sleep(0.05)

    def slot(self, namespace: str) -> int:
        return self.nodes[0].ask("CLUSTER", "KEYSLOT", f"{{{namespace}}}:#f")

    def node_of(self, namespace: str) -> Redis:
        """The node that does not send one on to another."""
        return next(node for node in self.nodes if isinstance(node.ask("EXISTS", f"{{{namespace}}}:#f"), int))

    def move(self, namespace: str) -> Redis:
        """Moves the slot of a namespace, with its keys, to another node, as a resharding does. Returns that node."""
        slot, source = self.slot(namespace), self.node_of(namespace)
        target = next(node for node in self.nodes if node is not source)
        ids = {node: node.ask("CLUSTER", "MYID").decode() for node in self.nodes}
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10):
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for node in (target, source, *self.nodes):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
        return target


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder)
        try:
            cluster.start()
            yield cluster
        finally:
            with contextlib.suppress(ProcessLookupError):
                cluster.stop()


@every_model
@pytest.mark.parametrize("handler", ["script", "pure"])
async def test_any_node_leads_to_the_one_that_has_the_namespace(model: Model, cluster: Cluster, handler: str) -> None:
    owners = set()
    for namespace in ("one", "two", "three", "four", "five", "six"):
        owners.add(cluster.node_of(namespace).port)
        for node in cluster.nodes:
            locks = model.locks(node.url, namespace=namespace, handler=handler)
            async with locks.lock("a", "b") as held:
                assert held.token > 0
                assert await locks.is_locked("a", "b")
            assert not await locks.is_locked("a", "b")
            locks.close()
    assert len(owners) > 1, "these namespaces should be on several nodes"


@every_model
async def test_a_slot_that_moves_takes_its_locks_along(model: Model, cluster: Cluster) -> None:
    """The holder keeps its lock, and who waits has it next; neither notices."""
    namespace = f"moving-{model.name}"
    holder = model.locks(cluster.nodes[0].url, namespace=namespace, ttl=2.0)
    waiter = model.locks(cluster.nodes[1].url, namespace=namespace, ttl=2.0, heartbeat=0.2)
    held = await holder.lock("a", "b", timeout=5).acquire()

    async def wait() -> int:
        async with waiter.lock("b", timeout=20) as got:
            return got.token

    waiting = model.spawn(wait())
    await model.sleep(0.3)
    target = cluster.move(namespace)
    await model.sleep(3.0)
    held.check()
    assert await held.release()
    assert await model.join(waiting) > held.token
    assert not target.left_behind()
    holder.close()
    waiter.close()
