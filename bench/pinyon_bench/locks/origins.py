"""Which commands came from clients, and which from scripts: the server's statistics count both alike.

`MONITOR` tells them apart. It slows the server, so it listens only while a cell is verified, and what it hears there
divides what the statistics count while the cell is timed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .server import LockServer

END = "pinyon-bench-end"
SUBCOMMANDS = (
    "acl",
    "client",
    "command",
    "config",
    "function",
    "memory",
    "object",
    "pubsub",
    "script",
    "slowlog",
    "xinfo",
)
#: What no script can call.
CLIENTS_ALONE = frozenset(
    "auth client eval evalsha exec fcall function hello multi quit reset script select ssubscribe subscribe unsubscribe "
    "unwatch watch".split()
)


@dataclass
class Origins:
    """How often each command was heard, by where it came from."""

    sent: Counter[str] = field(default_factory=Counter)
    inside: Counter[str] = field(default_factory=Counter)

    def share_sent(self, command: str) -> float:
        """Returns which part of a command's calls clients sent.

        One that was not heard is a rare path: of a script if any script was heard to call commands, else of the client.
        """
        sent, inside = self.sent[command], self.inside[command]
        if sent or inside:
            return sent / (sent + inside)
        return 0.0 if self.inside and command.partition("|")[0] not in CLIENTS_ALONE else 1.0


@contextmanager
def listening(server: LockServer) -> Iterator[Origins]:
    """Listens to what the server does inside; the origins it gives are filled in at the end."""
    origins = Origins()
    with server.connection.monitor() as monitor:
        yield origins
        server.connection.echo(END)
        while (heard := monitor.next_command())["command"].split(" ")[-1] != END:
            where = origins.inside if heard["client_type"] == "lua" else origins.sent
            where[statistics_name(heard["command"])] += 1


def statistics_name(words: str) -> str:
    """Returns what the statistics call a command, of whose words MONITOR has told."""
    first, _, rest = words.lower().partition(" ")
    return f"{first}|{rest.partition(' ')[0]}" if first in SUBCOMMANDS else first
