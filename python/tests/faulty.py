"""Servers that misbehave, for tests that no scenario covers: see ``scenarios/`` beside this package."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

from conversation import Conversation, Play, Step
from listener import Listener, ScriptedServer

if TYPE_CHECKING:
    from servers import Memcached

__all__ = ["STALL", "Conversation", "FaultyServer", "Listener", "OlderServer", "Play", "Step"]

#: Reads a request and never answers.
STALL = Step(then="stall")


class FaultyServer(ScriptedServer):
    """A memcached that plays steps on each connection, until it is healed.

    Args:
        version: the version that it reports when a connection begins; None for no answer.
        port: where it listens; 0 for any free port.
    """

    def __init__(self, *steps: Step | Play, version: str | None = "1.6.18", port: int = 0) -> None:
        greeting = Step(f"VERSION {version}\r\n", match="^version$") if version else STALL
        super().__init__("memcached", [greeting, *steps], {}, port=port)

    @property
    def requests(self) -> list[bytes]:
        """The requests it received, except for the version."""
        return [request for each in self.conversations for request in each.requests if request != b"version"]

    def heal(self, healthy: Memcached | None = None) -> None:
        """Passes connections on to the given server from now on."""
        if healthy is not None:
            self.real = healthy.address
        super().heal()


class OlderServer(Listener):
    """A real server that claims to be older. Before 1.6.18, it echoes nothing on a miss."""

    def __init__(self, target: Any, version: str) -> None:
        self.target = target
        self.version = version.encode()
        super().__init__()

    def serve(self, connection: socket.socket, number: int) -> None:
        self.relay(connection, self.target.address)

    def rewrite(self, replies: bytes) -> bytes:
        replies = re.sub(rb"(?m)^VERSION [0-9][^\r]*", b"VERSION " + self.version, replies)
        return re.sub(rb"(?m)^EN O[0-9a-f]+\r", b"EN\r", replies)
