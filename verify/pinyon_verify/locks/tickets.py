"""Tickets of locks that are handed over: files, which workers of all processes and languages leave and find."""

from __future__ import annotations

import contextlib
import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

#: How often a worker leaves the ticket that it uses to others, who then use it, too.
SHARED = 0.3


@dataclass(frozen=True)
class Ticket:
    """The text for ``adopt``, and what the history needs: the lock's names, and the attempt that had it."""

    text: str
    names: list[str]
    attempt: str


class Tickets:
    """The tickets in a folder."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder, self._chance = folder, chance

    def leave(self, ticket: Ticket) -> None:
        """Put it where others find it."""
        path = self._folder / f"{ticket.attempt}.ticket"
        path.with_suffix(".new").write_text(
            json.dumps({"ticket": ticket.text, "names": ticket.names, "attempt": ticket.attempt})
        )
        path.with_suffix(".new").rename(path)

    def find(self) -> Ticket | None:
        """Return a ticket that somebody has left. As a rule, nobody else finds it then."""
        names = sorted(name for name in os.listdir(self._folder) if name.endswith(".ticket"))
        if not names:
            return None
        path = self._folder / self._chance.choice(names)
        try:
            content = json.loads(path.read_text())
            if self._chance.random() >= SHARED:
                path.unlink()
        except FileNotFoundError:
            return None
        return Ticket(content["ticket"], content["names"], content["attempt"])

    def remove(self, ticket: Ticket) -> None:
        """Remove a ticket that was used."""
        with contextlib.suppress(FileNotFoundError):
            (self._folder / f"{ticket.attempt}.ticket").unlink()
