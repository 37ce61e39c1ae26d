"""Which commands came from clients, and which from scripts. The server's statistics do not distinguish them.

`MONITOR` does, but it slows the server. So it listens only while a cell is verified, and its result is used to
divide the statistics of the timed cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
#: Commands that no script can call.
CLIENTS_ALONE = frozenset(
    "auth client eval evalsha exec fcall function hello multi quit reset script select ssubscribe subscribe unsubscribe "
    "unwatch watch".split()
)


@dataclass
class Origins:
    """How many times each command was heard, by origin."""

    sent: Counter[str] = field(default_factory=Counter)
    inside: Counter[str] = field(default_factory=Counter)

    def share_sent(self, command: str) -> float:
        """Returns the share of a command's calls that clients sent.

        A command that was not heard is rare: it counts as a script's if any script was heard to call commands,
        otherwise as a client's.
        """
        sent, inside = self.sent[command], self.inside[command]
        if sent or inside:
            return sent / (sent + inside)
        return 0.0 if self.inside and command.partition("|")[0] not in CLIENTS_ALONE else 1.0


@contextmanager
def listening(*servers: LockServer) -> Iterator[Origins]:
    """Listens to the servers within the block. The yielded origins are filled in at its end."""
    origins = Origins()
    with ExitStack() as stack:
        monitors = [stack.enter_context(server.connection.monitor()) for server in servers]
        yield origins
        for server, monitor in zip(servers, monitors, strict=True):
            server.connection.echo(END)
            while (heard := monitor.next_command())["command"].split(" ")[-1] != END:
                where = origins.inside if heard["client_type"] == "lua" else origins.sent
                where[statistics_name(heard["command"])] += 1


def statistics_name(words: str) -> str:
    """Returns the statistics' name of a command reported by MONITOR."""
    first, _, rest = words.lower().partition(" ")
    return f"{first}|{rest.partition(' ')[0]}" if first in SUBCOMMANDS else first
