"""Locks on a cluster of three real nodes: each hash tag, the namespace's or the names' own, is on one of them."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from locking import nothing_left, until
from models import Model, every_model
from servers import Redis

import pinyon
from pinyon._hash_tags import KEPT

LocksOn = Callable[..., Any]


class Cluster:
    """Three nodes, each with a third of the slots."""

    def __init__(self, folder: str) -> None:
        settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "10000", "--dir", folder]
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

    def slot(self, tag: str) -> int:
        return self.nodes[0].ask("CLUSTER", "KEYSLOT", f"{{{tag}}}:#f")

    def node_of(self, tag: str) -> Redis:
        """The node that does not send one on to another."""
        return next(node for node in self.nodes if isinstance(node.ask("EXISTS", f"{{{tag}}}:#f"), int))

    def move(self, tag: str) -> Redis:
        """Moves the slot of a hash tag, with its keys, to another node, as a resharding does. Returns that node."""
        slot, source = self.slot(tag), self.node_of(tag)
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
            assert not await locks.is_locked("a"), "asked first"
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
    assert await waiter.is_locked("a", "b"), "asked while the node is another"
    await model.sleep(3.0)
    held.check()
    assert await held.release()
    assert await model.join(waiting) > held.token
    assert not target.left_behind()
    holder.close()
    waiter.close()


def tags_of_all(cluster: Cluster, salt: str) -> dict[str, Redis]:
    """A hash tag on each node."""
    found: dict[Redis, str] = {}
    for number in itertools.count():
        found.setdefault(cluster.node_of(f"{salt}:{number}"), f"{salt}:{number}")
        if len(found) == len(cluster.nodes):
            return {tag: node for node, tag in found.items()}
    raise AssertionError("there are always more numbers")


@every_model
@pytest.mark.parametrize("handler", ["script", "pure"])
async def test_names_with_hash_tags_of_their_own_are_on_all_nodes(
    model: Model, cluster: Cluster, handler: str, locks_on: LocksOn
) -> None:
    settings = {"namespace": f"tags-{model.name}-{handler}", "hash_tags": "names", "handler": handler}
    locks, others = (locks_on(node, **settings) for node in cluster.nodes[:2])
    tags = tags_of_all(cluster, model.name)

    async def count(tag: str) -> int:
        got = 0
        for _ in range(5):
            async with (locks, others)[got % 2].lock(f"{{{tag}}}:a", f"b{{{tag}}}", timeout=20):
                before, got = got, got + 1
                await model.sleep(0.002)
                assert got == before + 1
        return got

    for tag, node in tags.items():
        names = (f"{{{tag}}}:a", f"{{{tag}}}:b")
        async with locks.lock(*names) as held, locks.lock("untagged"):
            prefix = f"{{{tag}}}{{{settings['namespace']}}}:l:"
            assert {f"{prefix}{name}".encode() for name in names} <= node.left_behind()
            assert await others.try_lock(names[0]) is None
            with pytest.raises(pinyon.AlreadyHeld):
                await locks.lock(names[1]).acquire()
            (status,) = await others.status(names[1])
            assert status.token == (held.token if handler == "script" else None)
            waiting = model.spawn(others.lock(*names, timeout=10).acquire())
            await model.sleep(0.05)
        later = await model.join(waiting)
        assert later.token > held.token
        assert await locks.force_release(*names) == 2
        assert await later.release() is False
    assert await model.gather(count(tag) for tag in [*tags] * 3) == [5] * 9
    for node in cluster.nodes:
        await nothing_left(model, node)


@every_model
async def test_a_tags_slot_that_moves_takes_its_locks_along(model: Model, cluster: Cluster, locks_on: LocksOn) -> None:
    tags = [*tags_of_all(cluster, f"moving-{model.name}")]
    locks = locks_on(cluster.nodes[0], hash_tags="names", ttl=2.0)
    held = [await locks.lock(f"{{{tag}}}").acquire() for tag in tags]
    cluster.move(tags[0])
    await model.sleep(3)
    for each in held:
        each.check()
        assert await each.release()


@every_model
async def test_names_of_several_slots_are_refused_before_anything_is_sent(model: Model, cluster: Cluster) -> None:
    locks = model.locks("redis://127.0.0.1:1", hash_tags="names")
    foo, bar = cluster.slot("foo"), cluster.slot("bar")
    told = rf'"{{foo}}:a" has "foo" \(slot {foo}\), "{{bar}}:a" has "bar" \(slot {bar}\), "c" has none'
    names = ("{foo}:a", "{bar}:a", "{foo}:b", "c")

    async def take() -> None:
        async with locks.lock(*names):
            pass

    for ask in (
        take,
        *(functools.partial(getattr(locks, verb), *names) for verb in ("try_lock", "status", "is_locked")),
    ):
        with pytest.raises(ValueError, match=told) as raised:
            await ask()
        assert isinstance(raised.value, pinyon.InvalidName)
    locks.close()
    with pytest.raises(pinyon.UsageError, match='hash_tags must be "namespace" or "names", not \'slots\''):
        model.locks("redis://127.0.0.1:1", hash_tags="slots")


@every_model
async def test_a_namespaces_names_may_look_like_hash_tags(model: Model, cluster: Cluster, locks_on: LocksOn) -> None:
    locks = locks_on(cluster.nodes[0])
    async with locks.lock("{foo}:a", "{bar}:a", "c"):
        assert cluster.node_of("pinyon").left_behind() >= {b"{pinyon}:l:{foo}:a", b"{pinyon}:l:{bar}:a"}


@every_model
async def test_tags_that_are_not_used_any_more_cost_no_connection(
    model: Model, redis: Redis, locks_on: LocksOn
) -> None:
    before = redis.clients()
    locks = locks_on(redis, hash_tags="names")
    kept = locks.lock("{kept}", ttl=6)
    held = await kept.acquire()
    for number in range(3 * KEPT):
        async with locks.lock(f"{{{number}}}:a"):
            pass
    gc.collect()
    await until(model, lambda: redis.clients() - before <= KEPT + 1)
    await model.sleep(3)
    held.check()
    assert await held.release()
    async with kept, locks.lock("{0}:a", "{0}:b"):
        pass
    locks.close()
    await until(model, lambda: redis.clients() == before)
    assert await held.release() is False


def test_list_of_a_cluster_finds_the_names_of_all_nodes(cluster: Cluster) -> None:
    tags = [*tags_of_all(cluster, "listed")]
    settings = ("--namespace", "listed", "--json")
    for node in cluster.nodes:
        with pinyon.Locks(node.url, namespace="listed", hash_tags="names") as locks, contextlib.ExitStack() as stack:
            for name in ("plain", *(f"{{{tag}}}:a" for tag in tags)):
                stack.enter_context(locks.lock(name))
            assert listed("--url", node.url, *settings) == ["plain"]
            tagged = listed("--url", node.url, *settings, "--hash-tags", "names")
            assert tagged == sorted(["plain", *(f"{{{tag}}}:a" for tag in tags)])


def listed(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "pinyon", "locks", "list", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [each["name"] for each in json.loads(done.stdout)]
