"""What happened to the servers of a client, as its ``on_event`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Literal

    from pinyon.errors import Error


@dataclass(frozen=True)
class Event:
    """One thing that happened to a server.

    Attributes:
        kind: ``"down"``: the server failed and was marked down; ``"up"``: it was tried, and is in use again;
            ``"retry"``: a command that failed on it is tried again, there or elsewhere; ``"slow"``: a command was
            answered, but took ``slow_after`` or longer.
        server: the server's name as the client was given it.
        command: the protocol's name of the command, where the event is about one.
        error: what failed, of ``"down"`` and ``"retry"``.
        duration: seconds: of ``"up"`` how long the server was down, of ``"slow"`` how long the command took.
    """

    kind: Literal["down", "up", "retry", "slow"]
    server: str
    command: str | None = None
    error: Error | None = None
    duration: float | None = None
