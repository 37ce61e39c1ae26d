"""Relays that make a Redis into something that is nearly one: a proxy, a front end, an older or a stricter server.

``python3 scenarios/nearly_redis.py ADDRESS NAME …`` runs one in front of a real server for each name in `KINDS`. Its
first line of output is a JSON array of their addresses, in the same order. It ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
from collections.abc import Callable, Iterator

from listener import Listener

Command = list[bytes]
#: Returns a server's error for a command, or None to pass it on.
Refuse = Callable[[Command], "str | None"]

#: How servers and proxies refuse HELLO, where they do not complain of a password.
HELLO = {
    "older": "ERR unknown command 'HELLO'",
    "resp2-only": "NOPROTO unsupported protocol version",
    "envoy": "unsupported command 'HELLO'",
    "redis-cluster-proxy": "ERR unsupported command `hello`",
    "disabled": "ERR Unknown or disabled command",
    "acl": "NOPERM this user has no permissions to run the 'hello' command",
    "no-auth": "ERR HELLO AUTH is not supported",
}
#: How they refuse a script that uses keys which it has not declared.
UNDECLARED = {
    "dragonfly": "ERR Error running script (call to f): @user_script:2: script tried accessing undeclared key, key: k",
    "serverless": "ERR Script attempted to access a key that was not declared in KEYS",
    "undeclared": "ERR Undeclared key access in a Lua script",
    "hosted": "ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS"
    " array",
}


class NearlyRedis(Listener):
    """Passes commands on to a real server, and refuses some of them.

    Args:
        target: the server's address.
        refuse: what it refuses.
        cuts: the connection is closed instead.
    """

    def __init__(self, target: str, refuse: Refuse, *, cuts: bool = False) -> None:
        self.target = target
        self.refuse = refuse
        self.cuts = cuts
        self.refused = 0
        super().__init__()

    @property
    def url(self) -> str:
        return f"redis://{self.address}"

    def serve(self, connection: socket.socket, number: int) -> None:
        self.relay(connection, self.target)

    def asks(self, command: Command) -> Command:
        """What the server is asked for this command."""
        return command

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
                said = self.asks(said)
                target.sendall(b"*%d\r\n" % len(said) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in said))
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Miniredis(NearlyRedis):
    """Accepts RESP3, and then speaks RESP2 like Go's miniredis: a connection that listens answers nothing else."""

    #: The reply to HELLO 2 up to the version of the protocol.
    _CONFIRMED = re.compile(rb"\*14(\r\n\$6\r\nserver\r\n.*?\$5\r\nproto\r\n):2", re.DOTALL)

    def __init__(self, target: str) -> None:
        super().__init__(target, lambda command: None)

    def asks(self, command: Command) -> Command:
        return [command[0], b"2", *command[2:]] if command[0] == b"HELLO" else command

    def rewrite(self, replies: bytes) -> bytes:
        return self._CONFIRMED.sub(rb"%7\g<1>:3", replies)


def commands(readline: Callable[[], bytes], read: Callable[[int], bytes]) -> Iterator[Command]:
    """Yield the commands of a connection."""
    while line := readline():
        yield [read(int(readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]


def declares_all(command: Command) -> bool:
    """Whether a call of a function declares the keys of the queue, or needs none."""
    keys = command[3 : 3 + int(command[2])]
    return len(keys) == 1 or command[1].startswith((b"pinyon_extend", b"pinyon_raise")) or keys[0].endswith(b":#p")


def refuses_hello(words: str) -> Refuse:
    return lambda command: words if command[0] == b"HELLO" else None


def refuses_undeclared(words: str) -> Refuse:
    return lambda command: words if command[0] == b"FCALL" and not declares_all(command) else None


def nearly(name: str, target: str) -> NearlyRedis:
    """Start the relay with this name."""
    if name == "miniredis":
        return Miniredis(target)
    refuse = refuses_hello(HELLO[name]) if name in HELLO else refuses_undeclared(UNDECLARED[name])
    return NearlyRedis(target, refuse)


#: The names of all relays.
KINDS = (*HELLO, *UNDECLARED, "miniredis")


def main() -> None:
    target, *names = sys.argv[1:]
    with contextlib.ExitStack() as stack:
        relays = [stack.enter_context(nearly(name, target)) for name in names]
        print(json.dumps([relay.address for relay in relays]), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
