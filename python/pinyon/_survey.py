"""What the servers of locks say of themselves and of each other: for ``pinyon locks servers`` and ``pinyon check``."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Literal

    from pinyon._base_locks import BaseLocks

SLOTS = 16384


class Sentinel(NamedTuple):
    """A Sentinel in the URL.

    Attributes:
        address: where it is.
        primary: the server that it names; None if it names none.
        error: why it names none.
        others: the other Sentinels of the service that it knows.
        quorum: how many must agree that the primary is down.
        servers: the primary and the replicas that it knows.
    """

    address: str
    primary: str | None = None
    error: str | None = None
    others: tuple[str, ...] = ()
    quorum: int | None = None
    servers: tuple[str, ...] = ()


class Server(NamedTuple):
    """A server that keeps locks, or may do so after a failover.

    Attributes:
        address: where it is.
        role: what it calls itself.
        version: such as ``"redis 7.0.15"``.
        error: why it cannot be asked.
        primary: for a replica, the server that it follows.
        is_linked: for a replica, whether it has a connection to its primary.
        behind: for a replica, the bytes that it lacks, if its primary tells.
        replicas: the replicas that follow it, as it says.
        slots: in a cluster, how many slots it has.
        has_locks: whether the locks of the namespace are there.
        votes_in: in a quorum, the seconds until it has a vote; 0 if it has one.
        is_named: whether the URL names it.
    """

    address: str
    role: Literal["primary", "replica"] | None = None
    version: str | None = None
    error: str | None = None
    primary: str | None = None
    is_linked: bool | None = None
    behind: int | None = None
    replicas: tuple[str, ...] = ()
    slots: int | None = None
    has_locks: bool = False
    votes_in: float | None = None
    is_named: bool = False


class Survey(NamedTuple):
    """All servers of a client of locks.

    Attributes:
        kind: what the URL names.
        service: the name of the service that Sentinels watch.
        sentinels: those in the URL.
        servers: primaries first.
        missing: in a cluster, the slots that no node has, such as ``"0-99"``.
        slot: in a cluster, that of the namespace.
        owners: in a cluster, the nodes that others say have that slot.
    """

    kind: Literal["server", "sentinels", "cluster", "quorum"]
    service: str | None = None
    sentinels: tuple[Sentinel, ...] = ()
    servers: tuple[Server, ...] = ()
    missing: tuple[str, ...] = ()
    slot: int | None = None
    owners: tuple[str, ...] = ()

    @property
    def primary(self) -> str | None:
        """The one server that has the locks of the namespace."""
        return next((each.address for each in self.servers if each.has_locks and self.kind != "quorum"), None)

    @property
    def votes(self) -> int:
        """In a quorum, how many servers have a vote now."""
        return sum(each.votes_in == 0 for each in self.servers)

    @property
    def is_ready(self) -> bool:
        """Whether the locks of the namespace can be held now."""
        return self.votes > len(self.servers) // 2 if self.kind == "quorum" else self.primary is not None


def survey(locks: BaseLocks) -> Survey:
    """Ask all servers, each on a connection of its own. Errors of theirs are part of the answer."""
    places = locks._places
    if locks._service is not None:
        return _of_sentinels(locks, [place for place, _ in places])
    named = {place: _server(locks, place) for place, _ in places}
    if locks._votes_after is not None:
        return _of_quorum(named, locks._votes_after)
    if len(places) > 1 or any(each.info.get("cluster_enabled") == "1" for each in named.values()):
        return _of_cluster(locks, named)
    return _of_server(locks, named)


class _Told(NamedTuple):
    server: Server
    info: dict[str, str]


def _of_server(locks: BaseLocks, named: dict[str, _Told]) -> Survey:
    (told,) = named.values()
    servers = {told.server.address: told}
    if told.server.primary is not None:
        servers[told.server.primary] = _server(locks, told.server.primary)
    for primary in list(servers.values()):
        for replica in primary.server.replicas:
            servers.setdefault(replica, _server(locks, replica))
    first = next((told.server.address for told in servers.values() if told.server.role == "primary"), None)
    return Survey("server", servers=_listed(servers, set(named), first))


def _of_quorum(named: dict[str, _Told], votes_after: float) -> Survey:
    def judged(server: Server, info: dict[str, str]) -> Server:
        if server.role != "primary" or not info.get("uptime_in_seconds", "").isdigit():
            return server
        # The server counts whole seconds, from a beginning that it rounded down.
        running = max(int(info["uptime_in_seconds"]) - 1, 0)
        return server._replace(votes_in=max(votes_after - running, 0.0), has_locks=True, is_named=True)

    return Survey("quorum", servers=tuple(judged(*told) for told in named.values()))


def _of_sentinels(locks: BaseLocks, places: list[str]) -> Survey:
    sentinels = tuple(_sentinel(locks, place, locks._service or "") for place in places)
    votes = [each.primary for each in sentinels if each.primary is not None]
    agreed = next((primary for primary in votes if votes.count(primary) > len(places) // 2), None)
    known = dict.fromkeys([*votes, *(server for each in sentinels for server in each.servers)])
    servers = {address: _server(locks, address) for address in known}
    return Survey("sentinels", locks._service, sentinels, _listed(servers, set(), agreed))


def _sentinel(locks: BaseLocks, place: str, service: str) -> Sentinel:
    questions: list[list[Any]] = [
        ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service],
        ["SENTINEL", "MASTER", service],
        ["SENTINEL", "REPLICAS", service],
        ["SENTINEL", "SENTINELS", service],
    ]
    try:
        named, primary, replicas, others = locks._ask(place, questions, True)
    except Error as error:
        return Sentinel(place, error=_without(str(error), place))
    if not isinstance(named, list) or len(named) != 2:
        why = str(named) if isinstance(named, Error) else f"does not know the service {service!r}"
        return Sentinel(place, error=why)
    address = _joined(named[0], named[1])
    quorum = _fields(primary).get("quorum", "")
    replicas = tuple(_place_of(each) for each in replicas if isinstance(replicas, list))
    return Sentinel(
        place,
        address,
        others=tuple(_place_of(each) for each in others) if isinstance(others, list) else (),
        quorum=int(quorum) if quorum.isdigit() else None,
        servers=(address, *replicas),
    )


def _of_cluster(locks: BaseLocks, named: dict[str, _Told]) -> Survey:
    slot = _slot(locks.prefix)
    views = {}
    for address in named:
        try:
            (nodes,) = locks._ask(address, [["CLUSTER", "NODES"]], False)
        except Error:
            continue
        if isinstance(nodes, bytes):
            views[address] = _nodes(nodes.decode("utf-8", "replace"), address)
    nodes = {node.address: node for view in views.values() for node in view.values()}
    owned = {number for node in nodes.values() for number in node.slots}
    owners = {node.address for view in views.values() for node in view.values() if slot in node.slots}
    servers = dict(named)
    for address in nodes:
        servers.setdefault(address, _server(locks, address))
    for address, node in nodes.items():
        told = servers[address]
        slots = len(node.slots) if node.slots or told.server.role == "primary" else None
        servers[address] = told._replace(server=told.server._replace(slots=slots))
    owner = owners.copy().pop() if len(owners) == 1 else None
    missing = _ranges(number for number in range(SLOTS) if number not in owned) if views else []
    listed = _listed(servers, set(named), owner)
    return Survey("cluster", servers=listed, missing=tuple(missing), slot=slot, owners=tuple(sorted(owners)))


class _Node(NamedTuple):
    address: str
    slots: frozenset[int]


def _nodes(text: str, asked: str) -> dict[str, _Node]:
    """Read ``CLUSTER NODES``, by the nodes' names. A node that does not know its own address has the one asked."""
    nodes = {}
    for name, place, flags, _, *rest in (line.split(" ") for line in text.splitlines()):
        if "noaddr" in flags or "handshake" in flags:
            continue
        host, _, port = place.partition("@")[0].rpartition(":")
        address = _joined(host, port) if host else asked
        # A range in brackets is a slot on its way.
        ranges = [part.split("-") for part in rest[4:] if not part.startswith("[")]
        slots = frozenset(slot for ends in ranges for slot in range(int(ends[0]), int(ends[-1]) + 1))
        nodes[name] = _Node(asked if "myself" in flags else address, slots)
    return nodes


def _slot(prefix: bytes) -> int:
    """Return the slot of the namespace, which is the first hash tag of its prefix."""
    return binascii.crc_hqx(prefix[prefix.index(b"{") + 1 : prefix.index(b"}")], 0) % SLOTS


def _ranges(slots: Iterable[int]) -> list[str]:
    ranges: list[list[int]] = []
    for slot in slots:
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1][1] = slot
        else:
            ranges.append([slot, slot])
    return [str(first) if first == last else f"{first}-{last}" for first, last in ranges]


def _server(locks: BaseLocks, address: str) -> _Told:
    try:
        (told,) = locks._ask(address, [["INFO"]], False)
    except Error as error:
        return _Told(Server(address, error=_without(str(error), address)), {})
    if not isinstance(told, (bytes, str)):
        return _Told(Server(address, error=str(told)), {})
    info = info_of(told)
    product = "valkey" if "valkey_version" in info else "redis"
    version = f"{product} {info.get('valkey_version') or info.get('redis_version', 'of an unknown version')}"
    if info.get("role") == "slave":
        primary = _joined(info.get("master_host", ""), info.get("master_port", ""))
        linked = info.get("master_link_status") == "up"
        return _Told(Server(address, "replica", version, primary=primary, is_linked=linked), info)
    replicas = [_replica(value) for name, value in info.items() if name.startswith("slave") and name[5:].isdigit()]
    return _Told(Server(address, "primary", version, replicas=tuple(replicas)), info)


def _replica(line: str) -> str:
    fields = dict(part.split("=", 1) for part in line.split(",") if "=" in part)
    return _joined(fields.get("ip", ""), fields.get("port", ""))


def _listed(told: dict[str, _Told], named: set[str], with_locks: str | None) -> tuple[Server, ...]:
    """Return the servers, primaries first, with what they say of each other."""
    offsets = {}
    for each in told.values():
        offset = each.info.get("master_repl_offset", "")
        if each.server.role == "primary" and offset.isdigit():
            offsets[each.server.address] = int(offset)
    servers = []
    for address, (server, info) in told.items():
        primary, offset = offsets.get(server.primary or ""), info.get("slave_repl_offset", "")
        behind = max(primary - int(offset), 0) if primary is not None and offset.isdigit() else None
        is_named, has_locks = address in named, address == with_locks
        servers.append(server._replace(behind=behind, is_named=is_named, has_locks=has_locks))
    return tuple(sorted(servers, key=lambda each: ({"primary": 0, "replica": 1}.get(each.role or "", 2), each.address)))


def info_of(text: bytes | str) -> dict[str, str]:
    """Read what ``INFO`` answers."""
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return dict(line.split(":", 1) for line in said.splitlines() if ":" in line)


def _place_of(reply: Any) -> str:
    fields = _fields(reply)
    return _joined(fields.get("ip", ""), fields.get("port", ""))


def _fields(reply: Any) -> dict[str, str]:
    """Read names and values, which come as a map or as a list."""
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(reply, dict):
        pairs = reply.items()
    elif isinstance(reply, list):
        pairs = zip(reply[::2], reply[1::2])
    return {_text(name): _text(value) for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _joined(host: Any, port: Any) -> str:
    name = _text(host).lower()
    return f"[{name}]:{_text(port)}" if ":" in name else f"{name}:{_text(port)}"


def _without(message: str, address: str) -> str:
    return message.removeprefix(f"{address}: ")
