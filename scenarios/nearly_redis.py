"""Relays that make a Redis into something that is nearly one: a proxy, a front end, an older or a stricter server."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

from listener import Listener
from servers import Redis

Command = list[bytes]


class NearlyRedis(Listener):
    """Passes commands on to a real server, and refuses some of them.

    Args:
        target: the server.
        refuse: returns a server's error for a command, or None to pass it on.
        cuts: the connection is closed instead.
    """

    def __init__(self, target: Redis, refuse: Callable[[Command], str | None], *, cuts: bool = False) -> None:
        self.target = target
        self.refuse = refuse
        self.cuts = cuts
        self.refused = 0
        super().__init__()

    @property
    def url(self) -> str:
        return f"redis://{self.address}"

    def serve(self, connection: socket.socket, number: int) -> None:
        self.relay(connection, f"{self.target.host}:{self.target.port}")

    def _pump(self, source: socket.socket, target: socket.socket, replies: bool) -> None:
        if replies:
            super()._pump(source, target, replies)
            return
        with contextlib.suppress(OSError), source.makefile("rb") as requests:
            for command in commands(requests.readline, requests.read):
                error = self.refuse(command)
                self.refused += error is not None
                if error is not None and self.cuts:
                    break
                # The server itself says it, so that replies stay in order.
                said = [b"EVAL", b"return redis.error_reply(ARGV[1])", b"0", error.encode()] if error else command
                target.sendall(b"*%d\r\n" % len(said) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in said))
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def commands(readline: Callable[[], bytes], read: Callable[[int], bytes]) -> Iterator[Command]:
    """Yield the commands of a connection."""
    while line := readline():
        yield [read(int(readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]


def declares_all(command: Command) -> bool:
    """Whether a call of a function declares the keys of the queue, or needs none."""
    keys = command[3 : 3 + int(command[2])]
    return len(keys) == 1 or command[1].startswith((b"pinyon_extend", b"pinyon_raise")) or keys[0].endswith(b":#p")
