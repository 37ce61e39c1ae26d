"""A scripted server that misbehaves, and a proxy that makes a real server look older than it is."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from servers import Memcached

if TYPE_CHECKING:
    from typing_extensions import Self

VERSION = b"VERSION 1.6.18\r\n"


class GoneError(Exception):
    """The client has gone, or the test is over."""


class Conversation:
    """One connection as the server sees it."""

    def __init__(self, connection: socket.socket, over: threading.Event) -> None:
        self.connection = connection
        self.over = over
        self.unread = b""
        self.requests: list[bytes] = []

    def request(self) -> bytes:
        """The next command line, its data block read with it."""
        line = self._line()
        words = line.split()
        if words[0] in (b"ms", b"set", b"add", b"replace", b"append", b"prepend", b"cas"):
            size = int(words[2] if words[0] == b"ms" else words[4])
            while len(self.unread) < size + 2:
                self._receive()
            self.unread = self.unread[size + 2 :]
        self.requests.append(line)
        return line

    def send(self, reply: bytes) -> None:
        try:
            self.connection.sendall(reply)
        except OSError as error:
            raise GoneError from error

    def _line(self) -> bytes:
        while b"\r\n" not in self.unread:
            self._receive()
        line, _, self.unread = self.unread.partition(b"\r\n")
        return line

    def _receive(self) -> None:
        try:
            received = self.connection.recv(65536)
        except OSError as error:
            raise GoneError from error
        if not received:
            raise GoneError
        self.unread += received


Step = Callable[[Conversation], None]


def render(template: bytes, request: bytes) -> bytes:
    """The template with ``$K`` for the request's key and ``$O`` for its opaque."""
    words = request.split()
    opaque = next((word[1:] for word in words[2:] if word.startswith(b"O")), b"")
    return template.replace(b"$K", words[1] if len(words) > 1 else b"").replace(b"$O", opaque)


def reply(template: bytes) -> Step:
    """Answers one request."""
    return lambda conversation: conversation.send(render(template, conversation.request()))


def say(unasked: bytes) -> Step:
    """Sends without being asked."""
    return lambda conversation: conversation.send(unasked)


def drip(template: bytes, delay: float) -> Step:
    """Answers one byte at a time."""

    def step(conversation: Conversation) -> None:
        for byte in render(template, conversation.request()):
            conversation.send(bytes([byte]))
            if conversation.over.wait(delay):
                raise GoneError

    return step


def late(template: bytes, delay: float) -> Step:
    """Answers after a while."""

    def step(conversation: Conversation) -> None:
        request = conversation.request()
        time.sleep(delay)
        conversation.send(render(template, request))

    return step


def stall(conversation: Conversation) -> None:
    """Reads a request and never answers."""
    conversation.request()
    conversation.over.wait()


def cut(template: bytes, length: int) -> Step:
    """Closes the connection after so many bytes of the reply."""

    def step(conversation: Conversation) -> None:
        conversation.send(render(template, conversation.request())[:length])
        raise GoneError

    return step


def half_close(conversation: Conversation) -> None:
    """Says that nothing more will come, and goes on listening."""
    conversation.request()
    conversation.connection.shutdown(socket.SHUT_WR)
    conversation.over.wait()


def reset(conversation: Conversation) -> None:
    """Resets the connection instead of answering."""
    conversation.request()
    conversation.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise GoneError


def swap(template: bytes) -> Step:
    """Takes two requests and answers them in the wrong order."""

    def step(conversation: Conversation) -> None:
        first, second = conversation.request(), conversation.request()
        conversation.send(render(template, second) + render(template, first))

    return step


class Listener:
    """Serves each connection to a port of its own on a thread, until it is closed."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.accepted = 0
        self.open: list[socket.socket] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        raise NotImplementedError

    def relay(self, connection: socket.socket, target: Memcached) -> None:
        """Passes everything on to a real server."""
        with socket.create_connection((target.host, target.port)) as onward:
            self.open.append(onward)
            back = threading.Thread(target=self._pump, args=(onward, connection, self.rewrite), daemon=True)
            back.start()
            self._pump(connection, onward, bytes)
            back.join()

    def rewrite(self, replies: bytes) -> bytes:
        return replies

    def _pump(self, source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]) -> None:
        with contextlib.suppress(OSError):
            while received := source.recv(65536):
                target.sendall(change(received))
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            self.open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(GoneError, OSError), connection:
            self.serve(connection)

    def close(self) -> None:
        self.over.set()
        for listening_or_open in (self.socket, *self.open):
            with contextlib.suppress(OSError):
                listening_or_open.shutdown(socket.SHUT_RDWR)
            listening_or_open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FaultyServer(Listener):
    """Plays the same steps on every connection, then closes it; once healed, passes on to a real server.

    Args:
        version: the answer to the version probe that begins a connection, None for silence.
    """

    def __init__(self, *steps: Step, version: bytes | None = VERSION) -> None:
        self.steps = steps
        self.version = version
        self.healthy: Memcached | None = None
        self.conversations: list[Conversation] = []
        super().__init__()

    def heal(self, healthy: Memcached) -> None:
        self.healthy = healthy

    def serve(self, connection: socket.socket) -> None:
        if self.healthy is not None:
            return self.relay(connection, self.healthy)
        conversation = Conversation(connection, self.over)
        self.conversations.append(conversation)
        conversation.request()
        if self.version is None:
            self.over.wait()
            return None
        conversation.send(self.version)
        for step in self.steps:
            step(conversation)
        return None


class OlderServer(Listener):
    """A real server that says it is older, and before 1.6.18 does not echo anything on a miss."""

    def __init__(self, target: Memcached, version: str) -> None:
        self.target = target
        self.version = version.encode()
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        self.relay(connection, self.target)

    def rewrite(self, replies: bytes) -> bytes:
        replies = re.sub(rb"(?m)^VERSION [0-9][^\r]*", b"VERSION " + self.version, replies)
        return re.sub(rb"(?m)^EN O[0-9a-f]+\r", b"EN\r", replies)
