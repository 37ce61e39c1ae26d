"""Events: what happened to the servers of a client. ``on_event`` receives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

__all__ = ["Event"]

if TYPE_CHECKING:
    from typing_extensions import Literal

    from pinyon.errors import Error


@dataclass(frozen=True)
class Event:
    """One thing that happened to a server, or to the list of them.

    Attributes:
        kind: ``"down"``: the server failed and was marked down. ``"up"``: the server answered and is in use again.
            ``"retry"``: a command failed and is retried, on the same server or another one. ``"slow"``: a command took
            ``slow_after`` seconds or longer. ``"servers"``: the list of servers has changed. ``"discovery"``: no
            servers were discovered, and the last known ones stay in use. ``"classic"``: the server, or a proxy before
            it, does not take meta commands, and gets classic text from now on.
        server: the server's name, as it was given or discovered. For ``"servers"``, the names of all servers that hold
            keys from now on, separated by commas. For ``"discovery"``, the server that was asked.
        command: the command's name in the protocol, if the event is about a command.
        error: the failure, for ``"down"``, ``"retry"`` and ``"discovery"``.
        duration: in seconds. For ``"up"``, how long the server was down; for ``"slow"``, how long the command took.
        level: the importance, as in ``logging``.
        line: the event as a line of text, which the logger ``pinyon.servers`` writes.
    """

    kind: Literal["down", "up", "retry", "slow", "servers", "discovery", "classic"]
    server: str
    command: str | None = None
    error: Error | None = None
    duration: float | None = None
    level: Literal["debug", "info", "warning"] = "info"
    line: str = ""
