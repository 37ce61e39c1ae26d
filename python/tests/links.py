"""Links between a client and a real server: a slow one, and one that forgets connections which are idle."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from faulty import Listener
from servers import Memcached

#: So much passes at a time, so that connections share the link fairly.
PIECE = 64 * 1024
#: Small, so that replies wait at the server's side of the link.
BUFFER = 64 * 1024


class Link(Listener):
    """Passes everything on between its clients and the target."""

    def __init__(self, target: Memcached) -> None:
        self.target = target
        self.connections = 0
        super().__init__()

    def serve(self, connection: socket.socket, number: int) -> None:
        self.connections = number
        with socket.create_connection((self.target.host, self.target.port)) as onward:
            self.open.append(onward)
            back = threading.Thread(target=self.pass_back, args=(onward, connection), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while request := connection.recv(PIECE):
                    self.pass_request(request, onward, connection)
            with contextlib.suppress(OSError):
                onward.shutdown(socket.SHUT_RDWR)

    def pass_request(self, request: bytes, onward: socket.socket, connection: socket.socket) -> None:
        onward.sendall(request)

    def pass_back(self, onward: socket.socket, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while reply := onward.recv(PIECE):
                self.pass_reply(reply, connection)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def pass_reply(self, reply: bytes, connection: socket.socket) -> None:
        connection.sendall(reply)


class SlowLink(Link):
    """Lets so many bytes of replies through in a second, which all connections share.

    Args:
        rate: bytes in a second.
    """

    def __init__(self, target: Memcached, rate: float) -> None:
        self.rate = rate
        self.turn = threading.Lock()
        self.large_pieces = 0
        super().__init__(target)

    def pass_reply(self, reply: bytes, connection: socket.socket) -> None:
        if len(reply) < PIECE // 8:  # small ones take no time and need no turn
            connection.sendall(reply)
            return
        with self.turn:
            time.sleep(len(reply) / self.rate)
            self.large_pieces += 1
        connection.sendall(reply)


class ForgetfulLink(Link):
    """Swallows everything on connections that were idle, as firewalls do. It tells neither side.

    Connections become idle by :meth:`forget`, at the moment that a test chooses.
    """

    def __init__(self, target: Memcached) -> None:
        self.forgotten: set[int] = set()
        super().__init__(target)

    def forget(self) -> None:
        """Forget every connection there is."""
        self.forgotten = {id(connection) for connection in self.open}

    def pass_request(self, request: bytes, onward: socket.socket, connection: socket.socket) -> None:
        if id(connection) not in self.forgotten:
            onward.sendall(request)

    def pass_reply(self, reply: bytes, connection: socket.socket) -> None:
        if id(connection) not in self.forgotten:
            connection.sendall(reply)
