"""What happened to the servers of a client, as its ``on_event`` is told."""

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
        kind: ``"down"``: the server failed and was marked down; ``"up"``: it was tried, and is in use again;
            ``"retry"``: a command that failed on it is tried again, there or elsewhere; ``"slow"``: a command was
            answered, but took ``slow_after`` or longer; ``"servers"``: others were found than before; ``"discovery"``:
            none were found, and those known last stay in use; ``"classic"``: the server, or a proxy before it, takes no
            meta commands, and is spoken to in classic text from now on.
        server: the server's name as the client was given it or found it; of ``"servers"`` the names of all that hold
            keys from now on, separated by commas; of ``"discovery"`` who was asked.
        command: the protocol's name of the command, where the event is about one.
        error: what failed, of ``"down"``, ``"retry"`` and ``"discovery"``.
        duration: seconds: of ``"up"`` how long the server was down, of ``"slow"`` how long the command took.
        level: how much it matters, in the words of ``logging``.
        line: all of this in a line for people, as the logger ``pinyon.servers`` writes it.
    """

    kind: Literal["down", "up", "retry", "slow", "servers", "discovery", "classic"]
    server: str
    command: str | None = None
    error: Error | None = None
    duration: float | None = None
    level: Literal["debug", "info", "warning"] = "info"
    line: str = ""
