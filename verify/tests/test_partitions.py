"""A partition of a cluster is real: nothing passes in either direction, and all does when it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pinyon_verify.locks.clustered import Clustered, Node
from pinyon_verify.locks.group import wait

#: How many messages a node tries to send until what was on its way has arrived, and how many more while it is watched. Within
#: half of the node timeout, it sends one to each other node, and each of these one to it.
ON_THE_WAY, MANY = 3, 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clustered]:
    cluster = Clustered(tmp_path_factory.mktemp("cluster") / "c", linked=True)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def messages(node: Node, how: str) -> int:
    """How many messages of other nodes it received, or tried to send."""
    told = node.ask("CLUSTER", "INFO")
    assert isinstance(told, bytes)
    name = f"cluster_stats_messages_{how}:".encode()
    return next((int(line[len(name) :]) for line in told.splitlines() if line.startswith(name)), 0)


def hears_of_none(node: Node) -> bool:
    """Whether a node hears of no other while it sends many messages."""
    _wait_for_sent(node, ON_THE_WAY)
    received = messages(node, "received")
    _wait_for_sent(node, MANY)
    return messages(node, "received") == received


def _wait_for_sent(node: Node, more: int) -> None:
    until = messages(node, "sent") + more
    wait(lambda: messages(node, "sent") >= until)


def wait_for_message(node: Node) -> None:
    _wait_for_sent(node, ON_THE_WAY)
    received = messages(node, "received")
    wait(lambda: messages(node, "received") > received)


def write(node: Node) -> None:
    """Write something, which a primary does even when it refuses to serve clients."""
    node.ask("FLUSHALL")


def offset(node: Node) -> object:
    role = node.ask("ROLE")
    assert isinstance(role, list)
    return role[1] if role[0] == b"master" else role[4]


@pytest.fixture
def primary(cluster: Clustered) -> Iterator[Node]:
    """The primary that has the slot, from which nobody takes over."""
    assert cluster.links
    for node in cluster.servers:
        node.ask("CONFIG", "SET", "cluster-replica-no-failover", "yes")
    assert isinstance(cluster.primary, Node)
    yield cluster.primary
    cluster.links.heal()
    cluster.settle()


def test_nodes_know_each_other_by_their_proxies_only(cluster: Clustered) -> None:
    assert cluster.links
    expected = {(node.public, cluster.links.public[node.ports[1]]) for node in cluster.servers}
    assert expected.isdisjoint((node.ports[0], node.ports[1]) for node in cluster.servers)
    for node in cluster.servers:
        addresses = [words[1].split("@") for words in node.nodes()]
        assert {(int(address.rpartition(":")[2]), int(bus)) for address, bus in addresses} == expected


def test_a_primary_that_is_cut_off(cluster: Clustered, primary: Node) -> None:
    replica = cluster.replica()
    write(primary)
    wait(lambda: offset(replica) == offset(primary))
    cluster.isolate([])
    write(primary)
    assert hears_of_none(primary)
    wait(lambda: not any(node.is_serving() for node in cluster.servers))
    assert offset(replica) != offset(primary)
    assert cluster.links
    cluster.links.heal()
    wait_for_message(primary)
    cluster.settle()
    wait(lambda: offset(replica) == offset(primary))


@pytest.mark.parametrize("to_it", [True, False])
def test_one_direction_is_not_a_partition(cluster: Clustered, primary: Node, to_it: bool) -> None:
    """A connection carries answers, so a node that is cut off on one side hears of the others on the other side."""
    assert cluster.links
    others = [node for node in cluster.servers if node is not primary]
    if to_it:
        cluster.links.cut([node.source for node in others], primary.ports)
    else:
        cluster.links.cut([primary.source], [port for node in others for port in node.ports])
    wait_for_message(primary)
    assert not hears_of_none(primary)
    # It may have taken others for dead while they were busy.
    wait(primary.is_serving)
