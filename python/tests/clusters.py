"""A Redis Cluster of three real nodes, with or without TLS."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from typing import TYPE_CHECKING, Any

from certificates import Authority, SecureRedis
from servers import Redis
from waiting import wait_until

import pinyon

if TYPE_CHECKING:
    from typing_extensions import Self

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


class Cluster:
    """Three nodes, each with an address of its own and a third of the slots; as a context manager it runs.

    Args:
        folder: for the nodes' files.
    """

    #: The settings that clients need besides the URL of a node.
    settings: dict[str, Any]
    #: The options that ``redis-cli`` and ``pinyon locks`` need.
    cli_options: tuple[str, ...] = ()
    pinyon_options: tuple[str, ...] = ()

    def __init__(self, folder: str) -> None:
        self.settings = {"command_timeout": 30, "connect_timeout": 30}
        self.nodes = [self.node(host, *_arguments(folder, host)) for host in HOSTS]

    def node(self, host: str, *arguments: str) -> Redis:
        return Redis(*arguments, host=host)

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
            create = ["redis-cli", *self.cli_options, "--cluster", "create", *[node.address for node in self.nodes]]
            subprocess.run([*create, "--cluster-yes"], check=True, capture_output=True, timeout=120)
            wait_until(lambda: all(b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.stop()

    def add_replica(self, host: str, folder: str, of: Redis) -> Redis:
        """Starts a node that becomes the replica of another one."""
        replica = self.node(host, *_arguments(folder, host)).start()
        self.nodes.append(replica)
        replica.ask("CLUSTER", "MEET", of.host, of.port)
        name = of.ask("CLUSTER", "MYID").decode()
        wait_until(lambda: replica.ask("CLUSTER", "REPLICATE", name) == "OK")
        wait_until(lambda: all(replica.port in _ports(node) for node in self.nodes))
        return replica

    def slot(self, tag: str) -> int:
        return self.nodes[0].ask("CLUSTER", "KEYSLOT", f"{{{tag}}}:#f")

    def node_of(self, tag: str) -> Redis:
        """The node that has this tag's slot."""
        return next(node for node in self.nodes if isinstance(node.ask("EXISTS", f"{{{tag}}}:#f"), int))

    def another(self, than: Redis) -> Redis:
        return next(node for node in self.nodes if node is not than)

    def move(self, tag: str) -> Redis:
        """Moves the slot of a hash tag with its keys to another node, as resharding does. Returns that node."""
        return self.begin_move(tag).end()

    def begin_move(self, tag: str) -> Move:
        """Begins to move the slot of a hash tag to another node."""
        slot, source = self.slot(tag), self.node_of(tag)
        move = Move(self, slot, source, self.another(source))
        move.target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(move.target))
        return move

    def id_of(self, node: Redis) -> str:
        name: str = node.ask("CLUSTER", "MYID").decode()
        return name


@dataclasses.dataclass
class Move:
    """A slot on its way."""

    cluster: Cluster
    slot: int
    source: Redis
    target: Redis

    def take(self, *keys: str | bytes) -> None:
        """Moves these keys."""
        self.source.ask("MIGRATE", self.target.host, self.target.port, "", 0, 5000, "KEYS", *keys)

    def refused(self) -> int:
        """How many calls of functions the source has refused."""
        stats: str = self.source.ask("INFO", "commandstats").decode()
        calls = [line for line in stats.splitlines() if line.startswith("cmdstat_fcall:")]
        return sum(int(number) for line in calls for number in re.findall(r"(?:rejected|failed)_calls=(\d+)", line))

    def end(self) -> Redis:
        """Moves the rest. Returns the node that has the slot."""
        while keys := self.source.ask("CLUSTER", "GETKEYSINSLOT", self.slot, 10):
            self.take(*keys)
        for node in (self.target, self.source, *self.cluster.nodes):
            node.ask("CLUSTER", "SETSLOT", self.slot, "NODE", self.cluster.id_of(self.target))
        return self.target


class SecureCluster(Cluster):
    """Accepts only TLS, and only clients with a certificate. Each node's certificate is valid for its address and for
    the common name ``cluster.internal``.
    """

    def __init__(self, folder: str, authority: Authority) -> None:
        self.authority = authority
        own = authority.issue("client")
        self.files = {"ca": authority.file, "certificate": own.certificate, "key": own.key}
        ca, certificate, key = map(str, self.files.values())
        self.cli_options = ("--tls", "--cacert", ca, "--cert", certificate, "--key", key)
        self.pinyon_options = ("--ca", ca, "--certificate", certificate, "--key", key)
        super().__init__(folder)
        self.settings["tls"] = pinyon.Tls(**self.files)

    def node(self, host: str, *arguments: str) -> SecureRedis:
        shown = self.authority.issue(host, "cluster.internal")
        return SecureRedis(shown, self.authority, "--tls-cluster", "yes", *arguments, host=host)


def _ports(node: Redis) -> set[int]:
    """The ports of all nodes that a node knows."""
    lines = node.ask("CLUSTER", "NODES").decode().splitlines()
    return {int(line.split()[1].split("@")[0].rsplit(":", 1)[1]) for line in lines}


def _arguments(folder: str, host: str) -> list[str]:
    place = ["--dir", folder, "--cluster-config-file", f"{folder}/{host}.conf", "--dbfilename", f"{host}.rdb"]
    return ["--cluster-enabled", "yes", "--cluster-node-timeout", "10000", "--cluster-announce-ip", host, *place]
