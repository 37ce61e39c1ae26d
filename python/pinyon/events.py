"""Events: what happened to the servers of a client of caches or locks. ``on_event`` receives them."""

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
            it, does not take meta commands, and gets classic text from now on. ``"crowded"``: no further connection to
            the server could be made, and callers share those that work. ``"unreadable"``: a stored value cannot be
            read, and counts as missing; each reason is told once. ``"stale"``: ``get_or_set`` could not make a value,
            and keeps the old one.

            Of both: ``"certificates"``: the files of a ``Tls`` have changed and were read again.
            ``"stale_certificates"``: they have changed but cannot be used, and those read last stay in use.

            Of locks: ``"connected"``: a connection was made. ``"disconnected"``: it broke; the client connects again
            when it needs the server. ``"down"``: no connection can be made. ``"up"``: a connection was made again.
            ``"gone"``: a server that was down is no longer used. ``"switched"``: another server has taken over as the
            primary. ``"sentinel_down"`` and ``"sentinel_up"``: a Sentinel cannot be asked, or can be asked again.
            ``"renewals"``: the server refuses to renew locks that are held. ``"warning"``: something else that you
            should know; ``line`` says what.
        server: the server's name, as it was given or discovered. For ``"servers"``, the names of all servers that hold
            keys from now on, separated by commas. For ``"discovery"``, the server that was asked. For ``"switched"``,
            the new primary. If the servers of locks are found by Sentinels or in a cluster, ``"down"`` names those.
        command: the command's name in the protocol, if the event is about a command.
        error: the failure, for ``"down"``, ``"retry"``, ``"discovery"``, ``"crowded"``, ``"unreadable"``,
            ``"disconnected"``, ``"sentinel_down"``, ``"renewals"`` and ``"stale_certificates"``.
        duration: in seconds. For ``"up"`` and ``"gone"``, how long the server was down; for ``"slow"``, how long the
            command took.
        level: the importance, as in ``logging``.
        line: the event as a line of text, which the logger ``pinyon.servers`` writes, or ``pinyon.locks`` for locks.
        previous: for ``"switched"``, the former primary.
    """

    kind: Literal[
        "down",
        "up",
        "retry",
        "slow",
        "servers",
        "discovery",
        "classic",
        "crowded",
        "unreadable",
        "stale",
        "certificates",
        "stale_certificates",
        "connected",
        "disconnected",
        "gone",
        "switched",
        "sentinel_down",
        "sentinel_up",
        "renewals",
        "warning",
    ]
    server: str
    command: str | None = None
    error: Error | None = None
    duration: float | None = None
    level: Literal["debug", "info", "warning"] = "info"
    line: str = ""
    previous: str | None = None
