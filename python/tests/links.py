"""Links between a client and a real server: a slow one, and one that forgets connections which are idle."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from typing import ClassVar

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


class CountingLink(Link):
    """Counts round trips of a caller who awaits each reply before it asks again, and its commands by their names."""

    #: Commands with a data block, and the field of their line that says its size.
    SIZE_AT: ClassVar = {b"ms": 2, b"set": 4, b"add": 4, b"cas": 4}

    def __init__(self, target: Memcached) -> None:
        self.round_trips = 0
        self.commands: Counter[str] = Counter()
        self._is_answered = True
        self._unread = b""
        super().__init__(target)

    def pass_request(self, request: bytes, onward: socket.socket, connection: socket.socket) -> None:
        self.round_trips += self._is_answered
        self._is_answered = False
        self._unread += request
        while self._count():
            pass
        super().pass_request(request, onward, connection)

    def pass_reply(self, reply: bytes, connection: socket.socket) -> None:
        self._is_answered = True
        super().pass_reply(reply, connection)

    def take(self) -> tuple[int, dict[str, int]]:
        """Return what was counted, and begin anew."""
        taken = self.round_trips, dict(self.commands)
        self.round_trips = 0
        self.commands.clear()
        return taken

    def _count(self) -> bool:
        """Counts the next command. Returns whether it has arrived."""
        line, end, rest = self._unread.partition(b"\r\n")
        words = line.split(b" ")
        block = int(words[self.SIZE_AT[words[0]]]) + 2 if end and words[0] in self.SIZE_AT else 0
        if not end or len(rest) < block:
            return False
        self._unread = rest[block:]
        self.commands[words[0].decode()] += 1
        return True


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
