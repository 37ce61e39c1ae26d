"""Servers without items that record the keys they are asked for."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from other_rings.fleets import Fleet, Server

if TYPE_CHECKING:
    from typing_extensions import Self


class Listening:
    """The local servers of a fleet, without those that are dead."""

    def __init__(self, fleet: Fleet, dead: Collection[int] = ()) -> None:
        self._fleet = fleet
        self._selector = selectors.DefaultSelector()
        self._asked: dict[bytes, int] = {}
        self._dead = dead
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._selector.register(self._stopped, selectors.EVENT_READ, None)
        for index, server in enumerate(self._fleet.servers):
            if index not in self._dead:
                self._selector.register(_listener(server), selectors.EVENT_READ, index)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        for server in self._fleet.servers:
            if server.port is None:
                Path(server.host).unlink(missing_ok=True)

    def places(self, keys: Sequence[bytes]) -> list[int | None]:
        """The server that was asked for each key."""
        namespace = self._fleet.namespace.encode()
        return [self._asked.get(namespace + key) for key in keys]

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                if isinstance(key.data, int):
                    accepted = key.fileobj.accept()[0]  # type: ignore[union-attr]
                    self._selector.register(accepted, selectors.EVENT_READ, _Asker(key.data, self._asked))
                elif not key.data.serve(key.fileobj):
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]


class _Asker:
    """A connection, and the bytes received on it."""

    def __init__(self, index: int, asked: dict[bytes, int]) -> None:
        self._index = index
        self._asked = asked
        self._unread = b""

    def serve(self, connection: socket.socket) -> bool:
        received = b""
        with contextlib.suppress(OSError):
            received = connection.recv(1 << 20)
        *lines, self._unread = (self._unread + received).split(b"\r\n")
        for command, *keys in (line.split(b" ") for line in lines):
            assert command == b"get", command
            self._asked.update((key, self._index) for key in keys if key)
            connection.sendall(b"END\r\n")
        return bool(received)


def _listener(server: Server) -> socket.socket:
    unix = server.port is None
    listener = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    if not unix:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(server.host if unix else (server.host, server.port))
    listener.listen()
    return listener
