"""Looks at all names at once, repeatedly: who holds what, as the server sees it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from .group import Group
from .history import MILLISECOND, Recorder, now
from .names import lock_key
from .resp import Connection, ServerSaid
from .server import Server

# A name that is read, or a pool, is a set: each member has a part of it, until the time that is its score.
_SCRIPT = """
local seen = {}
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, value in ipairs(redis.call("MGET", unpack(KEYS))) do
  if value then
    seen[#seen + 1] = {i, value, redis.call("PTTL", KEYS[i])}
  elseif ARGV[1] == "shared" then
    local parts = redis.call("ZRANGEBYSCORE", KEYS[i], now, "(4503599627370496", "WITHSCORES")
    for at = 1, #parts, 2 do seen[#seen + 1] = {i, parts[at], parts[at + 1] - now, "part"} end
  end
end
return seen
"""

#: A server that takes longer to answer got no time.
STALL = 80 * MILLISECOND


@dataclass(frozen=True)
class Seen:
    """One name that was held at the time of a look, or a part of it."""

    name: str
    attempt: str
    #: None if the pure handler took it, and for a part.
    token: int | None
    #: The remaining milliseconds.
    left: int
    #: Whether others may have parts of it, too.
    is_part: bool = False


@dataclass(frozen=True)
class Scan:
    """What was held at one instant between two moments."""

    asked: int
    answered: int
    seen: tuple[Seen, ...]


class Observer:
    """A thread that looks until it is stopped.

    Args:
        names: what it looks at: names and pools.
        shared: whether anybody has parts of them.
    """

    def __init__(
        self, server: Server | Group, names: list[str], recorder: Recorder, shared: bool = False, every: float = 0.01
    ) -> None:
        self.scans: list[Scan] = []
        self._shared = shared
        self._server, self._names, self._record, self._every = server, names, recorder, every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if names:
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                port = self._server.port
                connection = self._server.connect()
            except OSError:
                time.sleep(0.02)
                continue
            try:
                while not self._stopped.wait(self._every) and port == self._server.port:
                    self._scan(connection)
            except (OSError, ServerSaid):
                time.sleep(0.02)
            finally:
                connection.close()

    def _scan(self, connection: Connection) -> None:
        before = now()
        seen = scan(connection, self._names, self._shared)
        after = now()
        if after - before > STALL:
            self._record("stall", at=before, until=after)
        if seen:
            self.scans.append(Scan(before, after, tuple(seen)))


def scan(connection: Connection, names: list[str], shared: bool = False) -> list[Seen]:
    """Return which of these names are held, in one look, and of `shared` ones who has parts."""
    keys = [lock_key(name) for name in names]
    found = connection("EVAL", _SCRIPT, len(keys), *keys, *(["shared"] if shared else []))
    return [_seen(names[index - 1], value, left, bool(part)) for index, value, left, *part in found]


def _seen(name: str, value: bytes, left: int, is_part: bool) -> Seen:
    attempt, *words = value.decode().split(" ")
    return Seen(name, attempt, int(words[0]) if words and not is_part else None, left, is_part)
