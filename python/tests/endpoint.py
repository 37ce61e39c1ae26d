"""A configuration endpoint like those of ElastiCache and Memorystore, which Debian's memcached does not have."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from typing import Any

from listener import Listener

__all__ = ["Endpoint", "entry"]


def entry(server: Any, host: str = "") -> str:
    """A server's entry in an endpoint's list."""
    ip, _, port = server.address.rpartition(":")
    return f"{host or ip}|{ip}|{port}"


class Endpoint(Listener):
    """Answers questions about the servers of a cluster.

    Args:
        servers: the initial ones.
        tls: how it speaks TLS, if it does.

    Attributes:
        answer: sent in place of the list.
        asked: how many times it was asked.
    """

    def __init__(self, servers: Iterable[Any] = (), *, tls: ssl.SSLContext | None = None) -> None:
        self.version = 0
        self.answer: bytes | None = None
        self.asked = 0
        self.tls = tls
        self.change(servers)
        super().__init__()

    def change(self, servers: Iterable[Any], version: int | None = None) -> None:
        self.version = self.version + 1 if version is None else version
        listed = " ".join(entry(server) for server in servers)
        self.listing = f"{self.version}\n{listed}\n".encode()

    def serve(self, connection: socket.socket, number: int) -> None:
        if self.tls is not None:
            connection = self.tls.wrap_socket(connection, server_side=True)
        with connection, connection.makefile("rb") as requests:
            for request in requests:
                connection.sendall(self._reply(request))

    def _reply(self, request: bytes) -> bytes:
        if request == b"version\r\n":
            return b"VERSION 1.6.22\r\n"
        if request == b"mn\r\n":
            return b"MN\r\n"
        assert request == b"config get cluster\r\n", request
        self.asked += 1
        if self.answer is not None:
            return self.answer
        return b"CONFIG cluster 0 %d\r\n%s\r\nEND\r\n" % (len(self.listing), self.listing)
