"""A primary with two replicas, and three Sentinels that watch it. For a world, they are one server: the primary."""

from __future__ import annotations

from pathlib import Path

from .group import Group, is_in_step, wait
from .resp import ServerSaid
from .server import Server, program

SERVICE = "main"
#: Milliseconds without a sign of life after which a Sentinel calls the primary down, while that is wanted. On a busy
#: machine it may be down for as long without a fault.
DOWN_AFTER = 1000
NEVER_DOWN = 600_000
#: Sentinels look at servers, and put them into their places, so often (milliseconds). They are usually slower. They
#: promote no replica of which they have heard nothing for five times the period of pings. They send the first ping of a new
#: primary only after that period, and call it down when it has not answered since the switch. A busy machine is no reason
#: to doubt one's own clock.
PERIODS = (
    *("info-period", "500", "ping-period", "300", "ask-period", "100", "publish-period", "200"),
    *("min-link-reconnect-period", "100", "tilt-trigger", "10000", "tilt-period", "1000"),
)


class Sentinel(Server):
    """A Sentinel, which keeps its configuration in a file of its own."""

    def watch(self, primary: int) -> None:
        """Write its configuration: it watches the primary on this port."""
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"bind-source-addr {self.source}",
            f"dir {self.folder}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary} 2",
            f"sentinel down-after-milliseconds {SERVICE} {NEVER_DOWN}",
            f"sentinel failover-timeout {SERVICE} 3000",
            "sentinel announce-ip 127.0.0.1",
            f"sentinel announce-port {self.public}",
        ]
        (self.folder / "conf").write_text("".join(f"{line}\n" for line in lines))

    def _command(self) -> list[str]:
        return [program(), str(self.folder / "conf"), "--sentinel"]

    def primary(self) -> int:
        """Return the port of the server that it names."""
        address = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        assert isinstance(address, list)
        return int(address[1])

    def knows(self, servers: int, sentinels: int) -> bool:
        """Whether it knows so many servers and Sentinels."""
        fields = self.ask("SENTINEL", "MASTER", SERVICE)
        assert isinstance(fields, list)
        facts = dict(zip(fields[::2], fields[1::2]))
        return (int(facts[b"num-slaves"]), int(facts[b"num-other-sentinels"])) == (servers - 1, sentinels - 1)


class Watched(Group):
    """The servers and Sentinels of one service."""

    def __init__(
        self, folder: Path, options: tuple[str, ...] = (), *, linked: bool = True, down_after: int = DOWN_AFTER
    ) -> None:
        self._down_after = down_after
        of_replication = ("--repl-diskless-sync-delay", "0", "--repl-timeout", "10")
        servers = [Server(folder / str(number), "journal", (*options, *of_replication)) for number in range(3)]
        self.sentinels = [Sentinel(folder / f"sentinel{number}") for number in range(3)]
        super().__init__(servers, [*self.sentinels], folder, linked=linked)
        for server in servers:
            server.options += ("--replica-announce-ip", "127.0.0.1", "--replica-announce-port", str(server.public))

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{sentinel.public}" for sentinel in self.sentinels)
        return f"redis+sentinel://{places}/{SERVICE}"

    def _join(self) -> None:
        for replica in self.servers[1:]:
            replica.ask("REPLICAOF", "127.0.0.1", self.primary.public)
        for sentinel in self.sentinels:
            sentinel.watch(self.primary.public)
            sentinel.start()
            sentinel.ask("SENTINEL", "DEBUG", *PERIODS)
        wait(lambda: all(sentinel.knows(len(self.servers), len(self.sentinels)) for sentinel in self.sentinels))
        wait(lambda: all(is_in_step(replica) for replica in self.servers[1:]))

    def fail_over(self) -> None:
        """Let the Sentinels make a replica the primary, as operators do."""
        before = self.primary

        def is_over() -> bool:
            # A failover that finds no replica ready is given up, and a second one at the same time is refused.
            try:
                self.sentinels[0].ask("SENTINEL", "FAILOVER", SERVICE)
            except ServerSaid:
                pass
            return self._is_switched(before)

        wait(is_over)

    def wait_for_next(self, before: Server) -> None:
        """Wait until a majority of the Sentinels names another primary."""
        wait(lambda: self._is_switched(before))

    def serving(self) -> Server | None:
        """Return the server that a majority of the Sentinels names, if it is a primary."""
        try:
            named = self._named()
            role = named.ask("ROLE") if named else None
        except (OSError, ServerSaid):
            return None
        return named if isinstance(role, list) and role[0] == b"master" else None

    def is_settled(self) -> bool:
        """Whether all Sentinels name the same primary, and the others are its replicas, and in step."""
        named = {sentinel.primary() for sentinel in self.sentinels}
        if len(named) == 1:
            self.primary = next(server for server in self.servers if server.public in named)
        others = [server for server in self.servers if server is not self.primary]
        return len(named) == 1 and all(is_in_step(server) for server in others)

    def let_fail_over(self, *, wanted: bool) -> None:
        """Let the Sentinels call a primary down, or not."""
        milliseconds = self._down_after if wanted else NEVER_DOWN
        for sentinel in self.sentinels:
            sentinel.ask("SENTINEL", "SET", SERVICE, "down-after-milliseconds", milliseconds)

    def _is_switched(self, before: Server) -> bool:
        named = self._named()
        if named and named is not before:
            self.primary = named
            return True
        return False

    def _named(self) -> Server | None:
        """Return the server that a majority of the Sentinels names."""
        named = [sentinel.primary() for sentinel in self.sentinels]
        return next((server for server in self.servers if named.count(server.public) > len(named) // 2), None)
