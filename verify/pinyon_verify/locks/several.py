"""Five independent servers, a majority of which holds each lock."""

from __future__ import annotations

from pathlib import Path

import pinyon

from .clock import Skipped
from .group import Group
from .server import Server

SERVERS = 5
#: How many can be away without anyone having to wait.
MINORITY = SERVERS // 2


class Several(Group):
    """The servers of a quorum. None of them is the primary; questions go to the first that runs."""

    def __init__(self, folder: Path, options: tuple[str, ...] = ()) -> None:
        servers = [Server(folder / str(number), "journal", options) for number in range(SERVERS)]
        super().__init__(servers, [], folder, linked=True)

    @property
    def url(self) -> str:
        return " ".join(f"redis://127.0.0.1:{server.public}" for server in self.servers)

    def start(self) -> None:
        try:
            pinyon.Locks(self.url, fairness="throughput").close()
        except pinyon.UsageError as error:
            raise Skipped(f"this Pinyon has no locks on several servers: {error}") from None
        super().start()

    def keys(self) -> list[str]:
        return [key for server in self.servers for key in server.keys()]
