"""A bare Python socket, the least that Python can do: one request, and one reply read into a preallocated buffer."""

from __future__ import annotations

import platform
import socket

from ..calls import Adapter, Calls, CannotDo
from ..protocol import Kind, address_of

BUFFER_SIZE = 1 << 18


class BareSocket:
    """Gets and sets bytes on one connection to one server. A value is a view into the buffer, until the next get."""

    def __init__(self, server: str) -> None:
        self._socket = socket.create_connection(address_of(server))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(BUFFER_SIZE)
        self._view = memoryview(self._buffer)

    def get(self, key: str) -> memoryview | None:
        """Returns the value, or None for a miss."""
        self._socket.sendall(b"mg %b v\r\n" % key.encode())
        received = self._socket.recv_into(self._view)
        if self._buffer.startswith(b"EN\r\n"):
            return None
        head = self._buffer.index(b"\r\n") + 2
        size = int(self._buffer[3 : head - 2])
        while received < head + size + 2:
            received += self._socket.recv_into(self._view[received:])
        return self._view[head : head + size]

    def set(self, key: str, value: bytes) -> bool:
        """Stores the value; returns whether the server did."""
        self._socket.sendall(b"ms %b %d\r\n%b\r\n" % (key.encode(), len(value), value))
        received = self._socket.recv_into(self._view)
        return self._buffer[:received] == b"HD\r\n"

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()


def connect(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    """Only for the rows of different value sizes."""
    if quiet or kind != "bytes" or len(servers) != 1:
        raise CannotDo("only plain gets and sets on one server")
    client = BareSocket(servers[0])
    return Calls(get=client.get, set=client.set, close=client.close)


ADAPTER = Adapter(
    f"Python {platform.python_version()}", "sendall, recv_into one preallocated buffer, TCP_NODELAY", connect
)
