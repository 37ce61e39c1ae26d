"""Several servers that are one for clients: what is common to Sentinels, clusters and quorums."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .clock import WallClock
from .journal import Journal, Journals
from .links import SILENT, Links
from .resp import ServerSaid
from .server import Server

#: Seconds that servers may need to agree, on any machine. Sentinels on a busy one do nothing for 30 at a time.
PATIENCE = 150.0


class Group:
    """Servers, of which one is the primary: most faults happen to it, and most questions go there."""

    def __init__(self, servers: list[Server], others: list[Server], folder: Path, *, linked: bool) -> None:
        self.servers, self._folder = servers, folder
        #: Processes beside them that decide who the primary is.
        self.others = others
        self.primary = servers[0]
        #: The proxies that the servers, the others and the clients use to reach them.
        self.links = Links(port for each in (*servers, *others) for port in each.ports) if linked else None
        for number, each in enumerate((*servers, *others), 1):
            if self.links:
                each.public, each.source = self.links.public[each.port], f"127.0.1.{number}"
        #: The clocks of the servers, if they can be moved.
        self.clocks: list[WallClock] = []
        self._journals: Journals | None = None

    @property
    def url(self) -> str:
        """What clients are given."""
        raise NotImplementedError

    def start(self) -> None:
        """Start everything, and wait until it is ready."""
        if self.links:
            self.links.start()
        for server, clock in zip(self.servers, self.clocks):
            server.follow(clock)
        for server in self.servers:
            server.start()
        self._journals = Journals(self.servers, self._folder / "journals")
        self._join()

    def _join(self) -> None:
        """Make them know each other."""

    def journals(self) -> list[Journal]:
        """Return what each server has carried out, once that is all."""
        return self._journals.stop() if self._journals else []

    def stop(self) -> None:
        for server in (*self.others, *self.servers):
            server.stop()
        if self.links:
            self.links.stop()

    def isolate(self, clients: Iterable[int], others: Iterable[int] = (), *, beside: Sequence[Server] = ()) -> None:
        """Cut the primary off from the other servers, in both directions, and with it these clients and servers. The other
        clients, if they are given, do not reach it.
        """
        assert self.links
        side = [self.primary, *beside]
        away = [each for each in (*self.servers, *self.others) if each not in side]
        inside, outside = ([port for each in half for port in each.ports] for half in (side, away))
        self.links.cut([*(each.source for each in away), *map(str, others)], inside)
        self.links.cut([*(each.source for each in side), *map(str, clients)], outside)

    def cut_clients(self, clients: Iterable[int], servers: Iterable[Server], how: str = SILENT) -> None:
        """Cut the links of these clients to these servers."""
        assert self.links
        self.links.cut(map(str, clients), [server.port for server in servers], how)

    @contextlib.contextmanager
    def healed(self) -> Iterator[None]:
        """Let all links carry everything again at the end."""
        assert self.links
        yield
        self.links.heal()

    def wait_for_next(self, before: Server) -> None:
        """Wait until another server is the primary."""

    def know(self, key: str, wanted: bool = True) -> bool:
        """Whether all servers have this key, or none."""
        return all(server.ask("EXISTS", key) == wanted for server in self.servers)

    def let_fail_over(self, *, wanted: bool) -> None:
        """Let another server take over when the primary is down, or not."""

    def serving(self) -> Server | None:
        """Return the primary as clients can find it now, if they can."""
        return self.primary

    def settle(self) -> None:
        """Wait until all servers are in their places again."""
        wait(self.is_settled)

    def is_settled(self) -> bool:
        """Whether they are."""
        return True

    def index(self, server: Server) -> int:
        return self.servers.index(server)

    def __getattr__(self, name: str) -> Any:
        """What else is asked of a server, or done to one, is for the primary."""
        return getattr(self.primary, name)

    def channels(self) -> list[str]:
        return [channel for server in self.servers for channel in server.channels()]


class Unready(RuntimeError):
    """The servers did not come to what was awaited in time."""


def is_in_step(replica: Server) -> bool:
    role = replica.ask("ROLE")
    return isinstance(role, list) and role[0] == b"slave" and role[3] == b"connected"


def wait(condition: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait until it holds. Servers that do not answer make it false."""
    deadline = time.monotonic() + patience
    while True:
        try:
            if condition():
                return
        except (OSError, ServerSaid):
            pass
        if time.monotonic() > deadline:
            raise Unready("the servers did not come to that in time")
        time.sleep(0.01)
