"""Sabotages to test the checks: each changes a line of the functions on the server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pinyon

from .cell import Cell
from .cells import BUSY, CALM, each

if TYPE_CHECKING:
    from .world import World

LIBRARY = "pinyon_locks_4"


@dataclass(frozen=True)
class Sabotage:
    """One replaced line, the cell to run, and the check that must find it."""

    name: str
    found_by: str
    line: str
    instead: str
    cell: Cell

    def do(self, world: World) -> None:
        """Let a client load the library, then load the changed one in its place."""
        with pinyon.Locks(f"redis://127.0.0.1:{world.server.port}", handler="script") as locks:
            locks.is_locked("nothing")
        listed = world.server.ask("FUNCTION", "LIST", "LIBRARYNAME", LIBRARY, "WITHCODE")
        assert isinstance(listed, list)
        code = listed[0][-1].decode()
        if self.line not in code:
            raise RuntimeError(f"{self.name}: the library has no line {self.line!r}")
        world.server.ask("FUNCTION", "LOAD", "REPLACE", code.replace(self.line, self.instead))
        world.server.ask("FLUSHALL")
        world.server.ask("CONFIG", "RESETSTAT")

    def cell_of(self) -> Cell:
        return replace(self.cell, name=self.name, prepare=self.do)


_CALM = Cell("", "", each(CALM.but(patience=15.0), "asyncio", "blocking", "gevent"), exact=True)
_BUSY = Cell("", "", each(BUSY.but(cancels=0.3), "asyncio", "blocking", "gevent"))
_LONG = Cell("", "", each(BUSY.but(long_stays=0.5), "asyncio", "blocking", "gevent"))
_NESTED = Cell(
    "",
    "",
    each(BUSY.but(nested=0.4, most=3, cancels=0.0, patience=3.0), "asyncio", "blocking", "gevent"),
    ordered=False,
)

SABOTAGES = (
    Sabotage(
        "nobody-is-woken",
        "liveness",
        "local handed_over, deaf\n",
        # Neither attempts that release nor those that give up.
        "local grant, hand_over = function() end, function() end\nlocal handed_over, deaf\n",
        _CALM,
    ),
    Sabotage(
        "woken-twice",
        "wakes",
        'return client and call("PUBLISH"',
        'if client then call("PUBLISH", prefix .. "#c:" .. client, message) end\n  return client and call("PUBLISH"',
        _CALM,
    ),
    Sabotage(
        "tokens-repeat",
        "tokens",
        'local token = call("INCR", KEYS[1])',
        'local token = tonumber(call("GET", KEYS[1]) or 0)',
        _BUSY,
    ),
    Sabotage(
        "last-name-missing",
        "all or nothing",
        'for i = 4, #KEYS do call("PSETEX", KEYS[i], ttl, value) end',
        'for i = 4, math.max(4, #KEYS - 1) do call("PSETEX", KEYS[i], ttl, value) end',
        _BUSY,
    ),
    Sabotage(
        "order-ignored",
        "order",
        "if not fits(run, waiter, waiter.class == PLAIN and not run.throughput)",
        "if not fits(run, waiter, false)",
        _BUSY,
    ),
    Sabotage("cancels-ignored", "gone", "if waiter then drop(run, waiter) end", "", _BUSY),
    Sabotage("held-names-taken", "exclusion", "if not all_free and call(", "if false and call(", _BUSY),
    Sabotage(
        "not-prolonged",
        "belief",
        "if reply[i] == 1 then prolong(KEYS, key, past - 1, values[1], ttl) end",
        "",
        _LONG,
    ),
    Sabotage("deadlocks-untold", "said", "if owner == me then", "if false then", _NESTED),
    Sabotage(
        "records-stay",
        "nothing left",
        'call("HDEL", run.records, attempt)\n  end\n  run.waiters',
        "end\n  run.waiters",
        _CALM,
    ),
)
