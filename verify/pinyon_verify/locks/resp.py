"""A blocking connection to Redis in a hundred lines, independent of the code under test."""

from __future__ import annotations

import socket
from typing import Any


class ServerSaid(Exception):
    """The server answered with an error."""


class Connection:
    """One connection, to a port of this machine or a Unix socket; RESP2."""

    def __init__(self, address: int | str, timeout: float = 10.0) -> None:
        family = socket.AF_INET if isinstance(address, int) else socket.AF_UNIX
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(("127.0.0.1", address) if isinstance(address, int) else address)
        except BaseException:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb")

    def __call__(self, *parts: str | bytes | int) -> Any:
        """Return the reply to a command. Raise ``ServerSaid`` for an error, ``OSError`` if the connection broke."""
        self.send(*parts)
        reply = self.read()
        if isinstance(reply, ServerSaid):
            raise reply
        return reply

    def send(self, *parts: str | bytes | int) -> None:
        self._socket.sendall(encoded(*parts))

    def read(self) -> Any:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return ServerSaid(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._exactly(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        raise ConnectionError(f"not a reply: {line!r}")

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise ConnectionError("the connection was closed")
        return data

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def encoded(*parts: str | bytes | int) -> bytes:
    """Return a command's bytes."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in encoded)
