"""Sabotages to test the checks: each changes lines of the functions on the server, or lets servers lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pinyon

from . import group_scenarios, quorum_faults, switches
from .cell import Cell, Injector
from .group import Group
from .server import Server
from .settings import BUSY, CALM, NAMESPACE, Settings
from .world import World

LIBRARY = "pinyon_locks_8"
#: The line of the functions that renews a lock.
_RENEWS = "if reply[i] == 1 then prolong(KEYS, key, past - 1, values[1], ttl) end"


@dataclass(frozen=True)
class Sabotage:
    """A replaced line and perhaps others, or none for a cell that is sabotage itself; the cell to run, and the check that
    must find it.
    """

    name: str
    found_by: str
    line: str
    instead: str
    cell: Cell
    others: tuple[tuple[str, str], ...] = ()
    #: The least duration of the work, in seconds.
    seconds: float = 0.0

    def do(self, world: World) -> None:
        """Let a client load the library, then load the changed one in its place."""
        if not self.line:
            return
        url = world.server.url if isinstance(world.server, Group) else f"redis://127.0.0.1:{world.server.port}"
        # The only one that a quorum has; it concerns waiters.
        with pinyon.Locks(url, namespace=NAMESPACE, handler="script", fairness="throughput") as locks:
            locks.is_locked("nothing")
        listed = world.server.ask("FUNCTION", "LIST", "LIBRARYNAME", LIBRARY, "WITHCODE")
        assert isinstance(listed, list)
        code = listed[0][-1].decode()
        for line, instead in ((self.line, self.instead), *self.others):
            if as_loaded(line) not in code:
                raise RuntimeError(f"{self.name}: the library has no line {line!r}")
            code = code.replace(as_loaded(line), instead)
        for server in _primaries(world):
            server.ask("FUNCTION", "LOAD", "REPLACE", code)
            server.ask("FLUSHALL")
            server.ask("CONFIG", "RESETSTAT")

    def cell_of(self) -> Cell:
        return replace(self.cell, name=self.name, prepare=self.do)


def as_loaded(lines: str) -> str:
    """Return lines of a function as clients load them: without their indentation."""
    return "\n".join(line.lstrip() for line in lines.split("\n"))


def _primaries(world: World) -> list[Server]:
    if isinstance(world.server, Server):
        return [world.server]
    roles = [server.ask("ROLE") for server in world.server.servers]
    return [
        server for server, role in zip(world.server.servers, roles) if isinstance(role, list) and role[0] == b"master"
    ]


_CALM = Cell("", "", CALM.but(patience=15.0).each("asyncio", "blocking", "gevent"), exact=True)
_BUSY = Cell("", "", BUSY.but(cancels=0.3).each("asyncio", "blocking", "gevent"))
_LONG = Cell("", "", BUSY.but(long_stays=0.5).each("asyncio", "blocking", "gevent"))
_NESTED = Cell(
    "", "", BUSY.but(nested=0.4, most=3, cancels=0.0, patience=3.0).each("asyncio", "blocking", "gevent"), ordered=False
)


def _watched(fault: Injector, settings: Settings) -> Cell:
    clients = settings.each("asyncio", "blocking", "gevent")
    return Cell("", "", clients, faults=(fault,), every=0.7, ordered=False, servers="sentinels")


def _voted(fault: Injector, settings: Settings) -> Cell:
    clients = settings.but(fairness="throughput").each("asyncio", "blocking", "gevent")
    return Cell("", "", clients, faults=(fault,), every=0.7, ordered=False, servers="quorum")


_STAYING = BUSY.but(long_stays=0.3, cancels=0.0)

SABOTAGES = (
    Sabotage(
        "nobody-is-woken",
        "liveness",
        "local handed_over, deaf\n",
        # Neither by attempts that release, nor by those that give up, nor by those that ask for names that others await.
        "local grant, hand_over = function() end, function() end\nlocal handed_over, deaf\n",
        _CALM,
        (("    grant(run, names)\n    values = call(", "    values = call("),),
    ),
    Sabotage(
        "woken-twice",
        "wakes",
        'if client then call("PUBLISH", prefix .. "#c:" .. client, message) end',
        'for _ = 1, client and 2 or 0 do call("PUBLISH", prefix .. "#c:" .. client, message) end',
        _CALM,
    ),
    Sabotage(
        "tokens-repeat",
        "tokens",
        'local token = call("INCR", counter)',
        'local token = tonumber(call("GET", counter) or 0)',
        _BUSY,
        (('local number = call("INCR", counter)', 'local number = tonumber(call("GET", counter) or 0)'),),
    ),
    Sabotage(
        "last-name-missing",
        "all or nothing",
        'for i = 2, #KEYS do call("PSETEX", KEYS[i], ttl, value) end',
        'for i = 2, math.max(2, #KEYS - 1) do call("PSETEX", KEYS[i], ttl, value) end',
        _BUSY,
    ),
    Sabotage(
        "order-ignored",
        "order",
        "not fits(run, waiter, waiter.class == PLAIN and not run.throughput)",
        "not fits(run, waiter, false)",
        _BUSY,
    ),
    Sabotage("cancels-ignored", "gone", "if waiter then drop(run, waiter) end", "", _BUSY),
    Sabotage("held-names-taken", "exclusion", "if not all_free and call(", "if false and call(", _BUSY),
    Sabotage("not-prolonged", "belief", _RENEWS, "", _LONG),
    Sabotage("deadlocks-untold", "in time", "if owner == me then", "if false then", _NESTED),
    Sabotage(
        "records-stay",
        "nothing left",
        'call("HDEL", records, attempt)\n  end\n  run.waiters',
        "end\n  run.waiters",
        _CALM,
    ),
    Sabotage(
        "tokens-restart",
        "tokens",
        "if number < PER_MS then",
        "if false then",
        _watched(switches.lose_counter, BUSY),
        (("if token >= 4096 then", "if true then"), ("if number < floor then", "if false then")),
    ),
    Sabotage(
        "renewals-unproved",
        "belief",
        _RENEWS,
        f"{_RENEWS}\nreply[i] = 1",
        _watched(switches.split_most, BUSY.but(long_stays=0.8)),
        seconds=10.0,
    ),
    Sabotage(
        "renewals-unproved-in-cluster",
        "belief",
        _RENEWS,
        f"{_RENEWS}\nreply[i] = 1",
        # Locks that outlive the time without a primary.
        replace(_watched(switches.split_most, BUSY.but(ttl=4.0, long_stays=0.8)), servers="cluster", linked=True),
        seconds=10.0,
    ),
    Sabotage(
        "one-sentinel-believed", "followed", "", "", _watched(switches.split_with_one_believed, BUSY), seconds=9.0
    ),
    Sabotage("replica-believed", "tokens", "", "", _watched(switches.misled_by_all, BUSY), seconds=4.0),
    Sabotage(
        "identity-changes",
        "said",
        "",
        "",
        replace(_watched(switches.fail_over, BUSY), scenario=group_scenarios.repeated_as_another),
    ),
    Sabotage(
        "told-everywhere",
        "exclusion",
        "elseif listens(attempt) then",
        'elseif tell(attempt, "g " .. value) or listens(attempt) then',
        replace(_watched(switches.move_slot, BUSY), servers="cluster", every=0.3),
    ),
    Sabotage(
        "disjoint-majorities",
        "exclusion",
        "",
        "",
        replace(_voted(quorum_faults.stop_minority, BUSY), faults=(), ready=quorum_faults.vote_twice),
    ),
    Sabotage(
        "young-ones-vote",
        "exclusion",
        "",
        "",
        _voted(quorum_faults.young_ones_vote, _STAYING.but(ttl=3.0, names=3, most=2)),
        seconds=5.0,
    ),
    Sabotage(
        "tokens-not-raised",
        "tokens",
        'if floor + 0 > (call("GET", counter) or 0) + 0 then call("SET", counter, floor) end',
        "",
        _voted(quorum_faults.cut_minorities, BUSY),
        seconds=5.0,
    ),
    Sabotage(
        "votes-too-short",
        "exclusion",
        'for i = 2, #KEYS do call("PSETEX", KEYS[i], ttl, value) end',
        'for i = 2, #KEYS do call("PSETEX", KEYS[i], 50, value) end',
        _voted(quorum_faults.stop_minority, _STAYING),
        (
            ('call("PSETEX", keys[2], ttl, value .. " " .. ttl)', 'call("PSETEX", keys[2], 50, value .. " " .. ttl)'),
            (
                'call("PSETEX", key_of(name), ttl, value .. " " .. ttl)',
                'call("PSETEX", key_of(name), 50, value .. " " .. ttl)',
            ),
        ),
        seconds=4.0,
    ),
)
