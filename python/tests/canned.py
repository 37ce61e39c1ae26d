"""A server that sends the replies that a test has canned for a fake socket, to any client that speaks classic text."""

from __future__ import annotations

import re
import socket
from collections import deque
from collections.abc import Iterable
from typing import BinaryIO

from listener import Listener

#: Makes Pinyon speak classic text.
VERSION = b"VERSION 1.4.15\r\n"

#: Replies that pymemcache does not wait for on request, while Pinyon does.
UNCANNED = {
    **dict.fromkeys((b"set", b"add", b"replace", b"append", b"prepend", b"cas"), b"STORED\r\n"),
    **dict.fromkeys((b"incr", b"decr"), b"1\r\n"),
    b"delete": b"DELETED\r\n",
    b"touch": b"TOUCHED\r\n",
    b"flush_all": b"OK\r\n",
}

#: Commands whose replies have an end of their own. Each other command is answered with one piece.
ENDING = {*UNCANNED, b"get", b"gets", b"stats", b"version", b"cache_memlimit", b"shutdown"}

#: An incomplete reply of several lines.
UNFINISHED = re.compile(rb"(VALUE|STAT|ITEM) (?!.*END\r\n\Z)", re.DOTALL)


class CannedServer(Listener):
    """Listens once its address is requested.

    Args:
        replies: what is sent, in pieces; an exception closes the connection, unless it is an error that a server words.
    """

    def __init__(self, replies: Iterable[bytes | Exception]) -> None:
        self.replies = deque(replies)
        self.requests: list[bytes] = []
        self.closed = False
        self.listens = False

    @property
    def place(self) -> tuple[str, int]:
        if not self.listens:
            self.listens = True
            super().__init__()
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    @property
    def send_bufs(self) -> list[bytes]:
        """Everything that was sent, as one piece."""
        return [b"".join(self.requests)]

    def close(self) -> None:
        if self.listens:
            super().close()

    def serve(self, connection: socket.socket, number: int) -> None:
        with connection.makefile("rb") as incoming:
            line = incoming.readline()
            if line == b"version\r\n":
                connection.sendall(VERSION)
                line = incoming.readline()
            if line == b"mn\r\n":
                connection.sendall(b"ERROR\r\n")
                line = incoming.readline()
            while line:
                self.requests.append(line + _data(line, incoming))
                reply = self._reply(line.split()[0])
                connection.sendall(reply)
                if not self.replies and not reply.endswith(b"\n"):
                    return
                line = incoming.readline()

    def _reply(self, command: bytes) -> bytes:
        if not self.replies and command in UNCANNED:
            return UNCANNED[command]
        reply = self._next()
        while command in ENDING and (not reply.endswith(b"\n") or UNFINISHED.match(reply)):
            reply += self._next()
        return reply

    def _next(self) -> bytes:
        piece = self.replies.popleft() if self.replies else EOFError()
        if isinstance(piece, bytes):
            return piece
        if isinstance(piece, InterruptedError):
            return b""
        words = {"MemcacheClientError": b"CLIENT_ERROR %s\r\n", "MemcacheUnknownError": b"UNKNOWN %s\r\n"}
        if type(piece).__name__ in words:
            return words[type(piece).__name__] % str(piece).encode()
        self.closed = True
        raise ConnectionError


def _data(line: bytes, incoming: BinaryIO) -> bytes:
    words = line.split()
    return incoming.read(int(words[4]) + 2) if words[0] in UNCANNED and len(words) > 4 else b""
