"""A primary with two replicas, and three Sentinels that watch it. For a world, they are one server: the primary."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from .resp import Connection, ServerSaid
from .server import Server, program

SERVICE = "main"
#: Milliseconds without a sign of life after which a Sentinel calls the primary down.
DOWN_AFTER = 500
#: Seconds that Sentinels and replicas may need to know each other, and for a switch, on any machine.
PATIENCE = 60.0


class Sentinel(Server):
    """A Sentinel, which keeps its configuration in a file of its own."""

    def __init__(self, folder: Path, primary: Server) -> None:
        super().__init__(folder)
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {folder}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} 2",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER}",
            f"sentinel failover-timeout {SERVICE} 3000",
        ]
        (folder / "conf").write_text("".join(f"{line}\n" for line in lines))

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


class Watched:
    """The servers and Sentinels of one service."""

    def __init__(self, folder: Path, persistence: str = "none", options: tuple[str, ...] = ()) -> None:
        of_replication = ("--repl-diskless-sync-delay", "0", "--repl-timeout", "10")
        self.servers = [Server(folder / str(number), persistence, (*options, *of_replication)) for number in range(3)]
        self.sentinels = [Sentinel(folder / f"sentinel{number}", self.servers[0]) for number in range(3)]
        self.primary = self.servers[0]
        #: The environment of the servers' next start.
        self.environment: dict[str, str] = {}

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{places}/{SERVICE}"

    @property
    def port(self) -> int:
        return self.primary.port

    def start(self) -> None:
        for server in self.servers:
            server.environment = self.environment
            server.start()
        for replica in self.servers[1:]:
            replica.ask("REPLICAOF", "127.0.0.1", self.primary.port)
        for sentinel in self.sentinels:
            sentinel.start()
        _wait(lambda: all(sentinel.knows(len(self.servers), len(self.sentinels)) for sentinel in self.sentinels))
        _wait(lambda: all(_is_in_step(replica) for replica in self.servers[1:]))

    def stop(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.stop()

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

        _wait(is_over)

    def kill_primary(self) -> None:
        """Kill the primary, wait for the next one, and start the old one again, which becomes a replica."""
        before = self.primary
        before.kill()
        _wait(lambda: self._is_switched(before))
        before.start()

    def settle(self) -> None:
        """Wait until all other servers are replicas of the primary, and in step."""
        others = [server for server in self.servers if server is not self.primary]
        _wait(lambda: all(_is_in_step(server) for server in others))

    def _is_switched(self, before: Server) -> bool:
        """Whether all Sentinels name the same other server."""
        named = {sentinel.primary() for sentinel in self.sentinels}
        if len(named) > 1 or before.port in named:
            return False
        self.primary = next(server for server in self.servers if server.port in named)
        return True

    def pause(self) -> None:
        self.primary.pause()

    def resume(self) -> None:
        self.primary.resume()

    def kill(self) -> None:
        self.primary.kill()

    def connect(self, timeout: float = 10.0) -> Connection:
        return self.primary.connect(timeout)

    def ask(self, *parts: str | bytes | int) -> object:
        return self.primary.ask(*parts)

    def calls(self) -> dict[str, tuple[int, float]]:
        return self.primary.calls()

    def fact(self, section: str, name: str) -> int:
        return self.primary.fact(section, name)

    def slowest_script(self) -> int:
        return self.primary.slowest_script()


def _is_in_step(replica: Server) -> bool:
    role = replica.ask("ROLE")
    return isinstance(role, list) and role[0] == b"slave" and role[3] == b"connected"


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if condition():
                return
        except (OSError, ServerSaid):
            pass
        if time.monotonic() > deadline:
            raise RuntimeError("the Sentinels did not come to that in time")
        time.sleep(0.01)
