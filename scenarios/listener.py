"""Servers that misbehave, each on its own port. A thread serves each connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from conversation import Conversation, GoneError, Play, Step

if TYPE_CHECKING:
    from typing_extensions import Self


class Listener:
    """Serves each connection in a thread, until it is closed.

    Args:
        port: where it listens; 0 for any free port.
    """

    def __init__(self, port: int = 0) -> None:
        self.over = threading.Event()
        self.accepted = 0
        self.open: list[socket.socket] = []
        self.socket = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def serve(self, connection: socket.socket, number: int) -> None:
        """Serves the connection with this number, counted from 1."""
        raise NotImplementedError

    def relay(self, connection: socket.socket, target: str) -> None:
        """Passes everything on to the real server at this address."""
        host, _, port = target.rpartition(":")
        with socket.create_connection((host, int(port))) as onward:
            self.open.append(onward)
            back = threading.Thread(target=self._pump, args=(onward, connection, True), daemon=True)
            back.start()
            self._pump(connection, onward, False)
            back.join()

    def rewrite(self, replies: bytes) -> bytes:
        """Rewrites a real server's replies for a client."""
        return replies

    def _pump(self, source: socket.socket, target: socket.socket, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while received := source.recv(65536):
                target.sendall(self.rewrite(received) if replies else received)
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
            threading.Thread(target=self._serve, args=(connection, self.accepted), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(GoneError, OSError), connection:
            self.serve(connection, number)

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


class ScriptedServer(Listener):
    """Plays the same steps on every connection. A request after the last step closes the connection.

    Once healed, it passes new connections on to a real server.

    Args:
        protocol: ``"memcached"`` or ``"redis"``.
        steps: the actions for requests without a standing answer, in order.
        answers: the standing answers, by regular expression.
        faulty_connections: how many connections play the steps; None: all, until it is healed.
        real: the address of the real server for healthy connections.
        port: where it listens; 0 for any free port.
    """

    def __init__(
        self,
        protocol: str,
        steps: Sequence[Step | Play],
        answers: Mapping[str, Step],
        *,
        faulty_connections: int | None = None,
        real: str = "",
        port: int = 0,
    ) -> None:
        self.protocol = protocol
        self.steps = steps
        self.answers = answers
        self.faulty_connections = faulty_connections
        self.real = real
        self.healed = False
        self.conversations: list[Conversation] = []
        super().__init__(port)

    def heal(self) -> None:
        """Passes new connections on to the real server from now on. Existing ones continue."""
        self.healed = True

    def report(self) -> dict[str, object]:
        """What has happened: the accepted connections, and the requests that met a step."""
        played = list(self.conversations)
        return {
            "connections": self.accepted,
            "requests": [request.decode("latin-1") for each in played for request in each.requests],
            "unexpected": [request.decode("latin-1") for each in played for request in each.unexpected],
        }

    def serve(self, connection: socket.socket, number: int) -> None:
        if self.healed or (self.faulty_connections is not None and number > self.faulty_connections):
            return self.relay(connection, self.real)
        conversation = Conversation(connection, self.protocol, self.answers, self.over)
        self.conversations.append(conversation)
        for step in self.steps:
            conversation.play(step)
        # Requests with a standing answer are still answered. Anything else ends the connection.
        conversation.request()
        return None
