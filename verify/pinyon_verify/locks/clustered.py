"""A Redis Cluster of three primaries and three replicas. For a world, it is the primary that has one slot."""

from __future__ import annotations

import time
from pathlib import Path

from ..ports import BUS
from .group import Group, is_in_step, wait
from .resp import ServerSaid
from .server import Server
from .settings import NAMESPACE

#: Milliseconds without a sign of life after which nodes call another one down.
NODE_TIMEOUT = 1000
SLOTS = 16384
#: The names' hash tags, when they have any.
TAGS = 3


class Node(Server):
    """A node, which stays the same node when it loses its data."""

    @property
    def ports(self) -> list[int]:
        return [self.port, self.port + BUS]

    def _command(self) -> list[str]:
        return [*super()._command(), "--cluster-config-file", str(self.folder / "nodes.conf")]

    @property
    def id(self) -> str:
        name = self.ask("CLUSTER", "MYID")
        assert isinstance(name, bytes)
        return name.decode()

    def nodes(self) -> list[list[str]]:
        """Return what it knows of all nodes: the words of a line for each."""
        text = self.ask("CLUSTER", "NODES")
        assert isinstance(text, bytes)
        return [line.split(" ") for line in text.decode().splitlines()]

    def has(self, slot: int) -> int:
        """Return the port by which others know the node that has a slot, according to this one; 0 if it knows none."""
        for words in self.nodes():
            ranges = [[int(end) for end in word.split("-")] for word in words[8:] if not word.startswith("[")]
            if any(each[0] <= slot <= each[-1] for each in ranges):
                return _port(words)
        return 0

    def is_serving(self) -> bool:
        """Whether it answers clients."""
        told = self.ask("CLUSTER", "INFO")
        assert isinstance(told, bytes)
        return b"cluster_state:ok" in told


def _port(words: list[str]) -> int:
    """Return the port of the node in this line."""
    return int(words[1].split("@")[0].rpartition(":")[2])


class Clustered(Group):
    """The nodes of one cluster."""

    servers: list[Node]  # type: ignore[assignment]

    def __init__(
        self, folder: Path, options: tuple[str, ...] = (), *, tagged: bool = False, linked: bool = False
    ) -> None:
        own = (
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT)),
            *("--cluster-announce-ip", "127.0.0.1", "--repl-diskless-sync-delay", "0"),
        )
        nodes = [Node(folder / str(number), "journal", (*options, *own)) for number in range(6)]
        super().__init__([*nodes], [], folder, linked=linked)
        for node in nodes:
            node.options += ("--cluster-announce-port", str(node.public))
            node.options += ("--cluster-announce-bus-port", str(self._bus_of(node)))
        self._tags = [f"t{number}" for number in range(TAGS)] if tagged else [NAMESPACE]
        #: The slot that faults happen to.
        self.slot = 0

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.public}" for node in self.servers)

    def _bus_of(self, node: Node) -> int:
        bus = node.port + BUS
        return self.links.public[bus] if self.links else bus

    def _join(self) -> None:
        first, nodes = self.servers[0], self.servers
        for number, node in enumerate(nodes[:3]):
            node.ask("CLUSTER", "ADDSLOTSRANGE", number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", first.public, self._bus_of(first))
        wait(lambda: all(len(node.nodes()) == len(nodes) for node in nodes))
        for primary, replica in zip(nodes[:3], nodes[3:]):
            name = primary.id
            wait(lambda replica=replica, name=name: replica.ask("CLUSTER", "REPLICATE", name) == "OK")  # type: ignore[misc]
        wait(lambda: all(node.is_serving() for node in nodes))
        self.turn_to(self._tags[0])
        self.settle()

    def turn_to(self, tag: str) -> None:
        """Let the primary with this hash tag be the one that faults happen to."""
        slot = self.servers[0].ask("CLUSTER", "KEYSLOT", f"{{{tag}}}")
        assert isinstance(slot, int)
        self.slot = slot
        wait(lambda: self._find(None))

    @property
    def tags(self) -> list[str]:
        return self._tags

    def replica(self) -> Node:
        """Return the primary's replica, which may take over at once. After another change, nodes need a while to hear of it."""
        found: list[Node] = []

        def is_known() -> bool:
            assert isinstance(self.primary, Node)
            primary = self.primary.id
            ports = [_port(words) for words in self.servers[0].nodes() if words[3] == primary]
            found[:] = [node for node in self.servers if node.public in ports]
            return bool(found)

        wait(is_known)
        return found[0]

    def wait_for_next(self, before: Server) -> None:
        """Wait until all other nodes have seen that another one took over."""
        wait(lambda: self._find(before))

    def fail_over(self) -> None:
        """Let the replica take over as operators do: it waits until it has everything."""
        before, replica = self.primary, self.replica()

        def is_over() -> bool:
            if self._find(before):
                return True
            try:
                replica.ask("CLUSTER", "FAILOVER")
            except ServerSaid:
                pass
            time.sleep(0.2)
            return self._find(before)

        wait(is_over)

    def move_slot(self) -> None:
        """Move the slot with its keys to another primary, as resharding does."""
        source, port = self.primary, self.primary.port
        target = next(
            node
            for node in self.servers
            if node.port != port and (role := node.ask("ROLE")) and isinstance(role, list) and role[0] == b"master"
        )
        ids = [node.id for node in self.servers]
        target.ask("CLUSTER", "SETSLOT", self.slot, "IMPORTING", ids[self.index(source)])
        source.ask("CLUSTER", "SETSLOT", self.slot, "MIGRATING", ids[self.index(target)])
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", self.slot, 10):
            assert isinstance(keys, list)
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for node in (target, source, *self.servers):
            try:
                node.ask("CLUSTER", "SETSLOT", self.slot, "NODE", ids[self.index(target)])
            except ServerSaid as said:
                # Replicas are told by their primaries.
                if "only with masters" not in str(said):
                    raise
        wait(lambda: self._find(source))

    def is_settled(self) -> bool:
        """Whether each primary has a replica that is in step, and all nodes agree that all is well."""
        roles = [node.ask("ROLE") for node in self.servers]
        replicas = [node for node, role in zip(self.servers, roles) if isinstance(role, list) and role[0] == b"slave"]
        well = all(node.is_serving() for node in self.servers)
        return well and len(replicas) == 3 and all(is_in_step(replica) for replica in replicas)

    def keys(self) -> list[str]:
        return [key for node in self.servers for key in node.keys()]

    def _find(self, before: Server | None) -> bool:
        """Whether all nodes but this one agree who has the slot, and it is another one."""
        named = {node.has(self.slot) for node in self.servers if node is not before}
        if len(named) != 1 or 0 in named or (before and before.public in named):
            return False
        self.primary = next(node for node in self.servers if node.public in named)
        return True
