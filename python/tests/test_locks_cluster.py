"""Locks on a cluster of three real nodes. Each hash tag, the namespace's or the names' own, is on one of them."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, SecureRedis, Shown
from clusters import Cluster, SecureCluster
from locking import nothing_left, queued, renewed, still_renewed
from models import Model, every_model
from servers import Redis
from waiting import GIVES_UP

import pinyon

#: How many clients of hash tags keep their connection while they hold nothing.
KEPT = 64
LocksOn = Callable[..., Any]


@pytest.fixture(scope="module")
def plain_cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder, Cluster(folder) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def secure_cluster(certificates: Path) -> Iterator[SecureCluster]:
    with (
        tempfile.TemporaryDirectory() as folder,
        SecureCluster(folder, Authority(certificates, "cluster")) as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """A cluster without TLS, unless a test runs on both kinds."""
    found: Cluster = request.getfixturevalue(getattr(request, "param", "plain_cluster"))
    return found


with_and_without_tls = pytest.mark.parametrize(
    "cluster", ["plain_cluster", "secure_cluster"], ids=["plain", "TLS"], indirect=True
)


@every_model
@pytest.mark.parametrize("handler", ["script", "pure"])
@pytest.mark.parametrize("hash_tags", ["namespace", "names"])
async def test_names_to_read_and_permits_are_where_their_tag_is(
    model: Model, cluster: Cluster, handler: str, hash_tags: str
) -> None:
    settings = {"namespace": "sharing", "handler": handler, "hash_tags": hash_tags, **cluster.settings}
    locks, others = (model.locks(node.url, **settings) for node in cluster.nodes[:2])
    for tag in ("{one}", "{two}"):
        permits = locks.permits(f"{tag}:p", limit=3)
        async with locks.lock(f"{tag}:a", read=f"{tag}:b", permits={f"{tag}:p": 2}):
            assert await permits.available() == 1
            assert await others.try_lock(f"{tag}:b") is None
            async with others.read(f"{tag}:b"):
                (status,) = await locks.status(f"{tag}:b")
                assert len(status.readers) == 2
            waiting = model.spawn(others.permits(f"{tag}:p", limit=3, n=3, timeout=GIVES_UP).acquire())
        all_of_them = await model.join(waiting)
        assert await permits.available() == 0
        await all_of_them.release()
        assert await permits.available() == 3
    locks.close()
    others.close()


@every_model
@with_and_without_tls
@pytest.mark.parametrize("handler", ["script", "pure"])
async def test_any_node_leads_to_the_one_that_has_the_namespace(model: Model, cluster: Cluster, handler: str) -> None:
    owners = set()
    for namespace in ("one", "two", "three", "four", "five", "six"):
        owners.add(cluster.node_of(namespace).port)
        for node in cluster.nodes:
            locks = model.locks(node.url, namespace=namespace, handler=handler, **cluster.settings)
            assert not await locks.is_locked("a"), "asked first"
            async with locks.lock("a", "b") as held:
                assert held.token > 0
                assert await locks.is_locked("a", "b")
            assert not await locks.is_locked("a", "b")
            locks.close()
    assert len(owners) > 1, "these namespaces should be on several nodes"


@every_model
@with_and_without_tls
async def test_a_slot_that_moves_takes_its_locks_along(model: Model, cluster: Cluster) -> None:
    """The holder keeps its lock, and the next waiter gets it; neither notices."""
    namespace = f"moving-{model.name}"
    settings = {"namespace": namespace, "ttl": 6.0, **cluster.settings}
    holder = model.locks(cluster.nodes[0].url, **settings)
    waiter = model.locks(cluster.nodes[1].url, heartbeat=0.2, **settings)
    held = await holder.lock("a", "b", timeout=60).acquire()

    async def wait() -> int:
        async with waiter.lock("b", timeout=60) as got:
            return got.token

    waiting = model.spawn(wait())
    await model.until(lambda: queued(cluster.node_of(namespace), namespace) == 1)
    target = cluster.move(namespace)
    assert await waiter.is_locked("a", "b"), "asked while the node is another"
    await still_renewed(model, held)
    assert await held.release()
    assert await model.join(waiting) > held.token
    assert not target.left_behind()
    holder.close()
    waiter.close()


@every_model
@pytest.mark.parametrize("moved", [[], ["l:a"], ["#f"], ["#q", "#w"], ["l:a", "#f", "#q"]], ids=" ".join)
async def test_while_a_slot_moves_every_call_waits_for_that(
    model: Model, cluster: Cluster, locks_on: LocksOn, moved: list[str]
) -> None:
    """No release, extension or question fails, and none changes anything before it is carried out."""
    namespace = f"on-its-way-{model.name}-{'-'.join(moved)}".replace("#", "").replace(":", "")
    settings = {"namespace": namespace, "command_timeout": 20.0, **cluster.settings}
    holder, waiter = (locks_on(cluster.nodes[0], **settings) for _ in range(2))
    held = await holder.lock("a", timeout=60).acquire()
    kept = await holder.lock("c", timeout=60).acquire()
    waiting = model.spawn(waiter.lock("a", timeout=60).acquire())
    await model.until(lambda: queued(cluster.node_of(namespace), namespace) == 1)
    move = cluster.begin_move(namespace)
    if moved:
        move.take(*(f"{{{namespace}}}:{key}" for key in moved))
    before = move.refused()
    releasing = model.spawn(held.release())
    await model.until(lambda: move.refused() > before)
    asking, extending = model.spawn(waiter.is_locked("b")), model.spawn(kept.extend(60))
    between = move.refused()
    await model.until(lambda: move.refused() > between + 2)
    move.end()
    assert await model.join(releasing)
    assert not await model.join(asking)
    assert await model.join(extending)
    assert await kept.release()
    got = await model.join(waiting)
    assert got.token > held.token
    assert await got.release()


@every_model
async def test_a_waiter_that_listens_to_another_node_is_granted_nothing(
    model: Model, cluster: Cluster, locks_on: LocksOn
) -> None:
    """A cluster passes on to all nodes what is published on one. That one takes such a waiter for gone."""
    settings = {"namespace": f"listening-{model.name}", "heartbeat": 2.0, **cluster.settings}
    holder, waiter, other = (locks_on(node, **settings) for node in cluster.nodes)
    held = await holder.lock("a", timeout=60).acquire()
    waiting = model.spawn(waiter.lock("a", timeout=60).acquire())
    source = cluster.node_of(settings["namespace"])
    await model.until(lambda: queued(source, settings["namespace"]) == 1)
    cluster.move(settings["namespace"])
    assert await held.release()
    got = await model.join(waiting)
    assert await other.try_lock("a") is None
    assert await got.release()


@pytest.fixture(scope="module")
def doubled_cluster() -> Iterator[tuple[Cluster, list[Redis]]]:
    """A cluster, and the two nodes of which one is the primary of the namespace ``pinyon`` and one its replica."""
    with tempfile.TemporaryDirectory() as folder, Cluster(folder) as cluster:
        primary = cluster.node_of("pinyon")
        yield cluster, [primary, cluster.add_replica("127.0.0.4", folder, primary)]


@every_model
async def test_a_lock_outlives_the_node_that_kept_it(
    model: Model, doubled_cluster: tuple[Cluster, list[Redis]], locks_on: LocksOn
) -> None:
    cluster, pair = doubled_cluster
    await model.until(lambda: any(b"master_link_status:up" in node.ask("INFO", "replication") for node in pair))
    replica, primary = sorted(pair, key=lambda node: node.ask("ROLE")[0] == b"master")
    places = dict.fromkeys(node.address for node in (primary, replica, *cluster.nodes))
    locks = locks_on(f"redis+cluster://{','.join(places)}")
    held = await locks.lock("a", ttl=60, timeout=60).acquire()
    for _ in range(10):  # a replica gives up after 5 seconds
        replica.ask("CLUSTER", "FAILOVER")
        with contextlib.suppress(AssertionError):
            await model.until(lambda: replica.ask("ROLE")[0] == b"master", within=6)
            break
    primary.stop()
    other = await locks.lock("b", timeout=60).acquire()
    assert other.token > held.token
    assert await held.release() is True
    assert await other.release() is True
    primary.restart()


@every_model
async def test_a_promoted_replica_is_found_though_the_url_names_only_the_primary_that_died(
    model: Model, doubled_cluster: tuple[Cluster, list[Redis]], locks_on: LocksOn
) -> None:
    _, pair = doubled_cluster
    await model.until(lambda: any(b"master_link_status:up" in node.ask("INFO", "replication") for node in pair))
    replica, primary = sorted(pair, key=lambda node: node.ask("ROLE")[0] == b"master")
    locks = locks_on(primary, replicas=1)
    held = await locks.lock("a", ttl=60, timeout=60).acquire()
    primary.stop()
    replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
    others = locks_on(replica)
    other = await others.lock("b", timeout=60).acquire()
    assert other.token > held.token
    assert await held.release() is True
    assert await other.release() is True
    primary.restart()


@every_model
async def test_the_node_that_one_is_sent_to_must_be_who_it_is(
    model: Model, secure_cluster: SecureCluster, locks_on: LocksOn
) -> None:
    """Even the certificate of the redirecting node is refused."""
    sent_to = secure_cluster.node_of("pinyon")
    asked = secure_cluster.another(than=sent_to)
    assert isinstance(sent_to, SecureRedis)
    assert isinstance(asked, SecureRedis)
    locks = locks_on(asked, **{**secure_cluster.settings, "command_timeout": GIVES_UP})
    try:
        shows(sent_to, asked.shown)
        with pytest.raises(pinyon.ConnectError, match=f'is not for "{sent_to.host}" but for {asked.host}, ') as raised:
            await locks.try_lock("name")
        assert asked.address in str(raised.value)
        assert sent_to.address in str(raised.value)
    finally:
        shows(sent_to, sent_to.shown)
    held = await model.eventually(lambda: locks.try_lock("name"))
    assert await held.release()


def shows(node: SecureRedis, shown: Shown) -> None:
    """Presents this certificate from now on."""
    files = ("tls-cert-file", shown.certificate, "tls-key-file", shown.key)
    assert node.ask("CONFIG", "SET", *map(str, files)) == "OK"


@every_model
async def test_nodes_may_have_a_name_in_common(model: Model, secure_cluster: SecureCluster, locks_on: LocksOn) -> None:
    tls = pinyon.Tls(**secure_cluster.files, server_name="cluster.internal")
    for node in secure_cluster.nodes:
        async with locks_on(node, tls=tls).lock("name") as held:
            assert held.token > 0


def tags_of_all(cluster: Cluster, salt: str) -> dict[str, Redis]:
    """A hash tag on each node."""
    found: dict[Redis, str] = {}
    for number in itertools.count():
        found.setdefault(cluster.node_of(f"{salt}:{number}"), f"{salt}:{number}")
        if len(found) == len(cluster.nodes):
            return {tag: node for node, tag in found.items()}
    raise AssertionError("there are always more numbers")


@every_model
@with_and_without_tls
@pytest.mark.parametrize("handler", ["script", "pure"])
async def test_names_with_hash_tags_of_their_own_are_on_all_nodes(
    model: Model, cluster: Cluster, handler: str, locks_on: LocksOn
) -> None:
    settings = {"namespace": f"tags-{model.name}-{handler}", "hash_tags": "names", "handler": handler}
    locks, others = (locks_on(node, **settings, **cluster.settings) for node in cluster.nodes[:2])
    tags = tags_of_all(cluster, model.name)

    async def count(tag: str) -> int:
        got = 0
        for _ in range(5):
            async with (locks, others)[got % 2].lock(f"{{{tag}}}:a", f"b{{{tag}}}", timeout=60):
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
            waiting = model.spawn(others.lock(*names, timeout=60).acquire())
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
    locks = locks_on(cluster.nodes[0], hash_tags="names", ttl=6.0)
    held = [await locks.lock(f"{{{tag}}}").acquire() for tag in tags]
    cluster.move(tags[0])
    await model.gather(still_renewed(model, each) for each in held)
    for each in held:
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
    with pytest.raises(pinyon.UsageError, match='hash_tags must be "namespace" or "names", not "slots"'):
        model.locks("redis://127.0.0.1:1", hash_tags="slots")


@every_model
async def test_a_namespaces_names_may_look_like_hash_tags(model: Model, cluster: Cluster, locks_on: LocksOn) -> None:
    locks = locks_on(cluster.nodes[0])
    async with locks.lock("{foo}:a", "{bar}:a", "c"):
        assert cluster.node_of("pinyon").left_behind() >= {b"{pinyon}:l:{foo}:a", b"{pinyon}:l:{bar}:a"}


@every_model
async def test_tags_that_are_not_used_any_more_cost_no_connection(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    locks = locks_on(own_redis, hash_tags="names")
    kept = locks.lock("{kept}", ttl=12)
    held = await kept.acquire()
    for number in range(3 * KEPT):
        async with locks.lock(f"{{{number}}}:a"):
            pass
    gc.collect()
    await model.until(lambda: own_redis.clients() <= KEPT + 1)
    await renewed(model, held)
    assert await held.release()
    async with kept, locks.lock("{0}:a", "{0}:b"):
        pass
    locks.close()
    await model.until(lambda: own_redis.clients() == 0)
    assert await held.release() is False


@with_and_without_tls
def test_list_of_a_cluster_finds_the_names_of_all_nodes(cluster: Cluster) -> None:
    tags = [*tags_of_all(cluster, "listed")]
    settings = ("--namespace", "listed", "--json", *cluster.pinyon_options)
    of_locks: dict[str, Any] = {"namespace": "listed", "hash_tags": "names", **cluster.settings}
    for node in cluster.nodes:
        with pinyon.Locks(node.url, **of_locks) as locks, contextlib.ExitStack() as stack:
            for name in ("plain", *(f"{{{tag}}}:a" for tag in tags)):
                stack.enter_context(locks.lock(name))
            assert listed("--url", node.url, *settings) == ["plain"]
            tagged = listed("--url", node.url, *settings, "--hash-tags", "names")
            assert tagged == sorted(["plain", *(f"{{{tag}}}:a" for tag in tags)])


def listed(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "pinyon", "locks", "list", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [each["name"] for each in json.loads(done.stdout)]


@every_model
async def test_each_node_is_logged_in_to_by_the_function(model: Model, cluster: Cluster) -> None:
    passwords: list[str] = []

    def renewed() -> pinyon.Credentials:
        passwords.append(f"token-{len(passwords)}")
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", "app", "on", f">{passwords[-1]}", "+@all", "~*", "&*")
        return {"username": "app", "password": passwords[-1], "lifetime": 1}

    def connections(node: Redis) -> list[str]:
        lines = node.ask("CLIENT", "LIST").decode().splitlines()
        return sorted(line.split()[0] for line in lines if "user=app" in line)

    owner = cluster.node_of("credentials")
    # The node that is asked first knows the owner, to which the client then logs in as well.
    url = cluster.another(owner).url
    locks = model.locks(url, namespace="credentials", password=renewed, **cluster.settings)
    try:
        held = await locks.lock("name", ttl=6).acquire()
        before, first = len(passwords), connections(owner)
        assert first
        await model.until(lambda: len(passwords) >= before + 3)
        assert await held.extend(6)
        assert connections(owner) == first, "it is logged in anew, and not connected anew"
        target = cluster.move("credentials")
        await still_renewed(model, held)
        assert connections(target)
        assert await held.release()
    finally:
        locks.close()
        for node in cluster.nodes:
            node.ask("ACL", "DELUSER", "app")
