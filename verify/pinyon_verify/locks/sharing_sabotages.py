"""Sabotages of locks that are more than mutexes: readers, permits, hand-overs, least times and rates."""

from __future__ import annotations

from dataclasses import replace

from . import faults
from .cell import Cell
from .sabotage import Sabotage
from .settings import BUSY, CALM, MANIFOLD, SHARING

_MODELS = ("asyncio", "blocking", "gevent", "blocking")
_CALM = Cell("", "", CALM.but(**SHARING, patience=15.0).each(*_MODELS), exact=True)
_BUSY = Cell("", "", BUSY.but(**MANIFOLD).each(*_MODELS))
_KILLED = replace(_BUSY, faults=(faults.kill_holder,), every=0.3)
_LONG = Cell("", "", BUSY.but(**SHARING, long_stays=0.5).each(*_MODELS))
_PERMITS = Cell("", "", CALM.but(permits=1.0, limit=2, stay=0.02, patience=15.0).each(*_MODELS))
_CROWD = Cell("", "", CALM.but(reads=0.8, names=1, fewest=1, most=1, stay=0.02, rest=0.0, apart=True).each(*_MODELS))
_HANDED = Cell("", "", BUSY.but(hand_overs=0.5, names=2, most=2, workers=5).each(*_MODELS))
_RATED = Cell("", "", CALM.but(rates=1.0, rest=0.0).each(*_MODELS))

_ROOM = "if not mode or not is_set(key) then return"

SHARING_SABOTAGES = (
    Sabotage(
        "readers-not-awaited", "exclusion", _ROOM, f"if not mode and is_set(key) then return true end\n  {_ROOM}", _BUSY
    ),
    Sabotage(
        "readers-pass-writers",
        "order",
        "if mode and not mode.count then return only_readers_before(run, waiter, name) end",
        "if mode and not mode.count then return true end",
        _CROWD,
    ),
    Sabotage(
        "readers-not-told",
        "liveness",
        "      if first and first.modes then\n        try_in_turn(run, name)",
        "      if first and first.modes then\n        run.budget = run.budget - 1",
        _CALM,
    ),
    Sabotage(
        "readers-token-too-low",
        "tokens",
        "return number < PER_MS and next_number() or number",
        "return number < PER_MS and next_number() or number - 1",
        _BUSY,
    ),
    Sabotage(
        "readers-not-renewed",
        "belief",
        "  prolong_parts(keys, names, modes, values, attempt, ttl, now)\n  return 1",
        "  return 1",
        _LONG,
    ),
    Sabotage(
        "parts-not-given-back",
        "nothing left",
        'call("ZREM", key, unpack(parts_of(attempt, mode))) > 0 then last_out(key) end',
        "false then last_out(key) end",
        _CALM,
    ),
    Sabotage(
        "permit-too-many",
        "permits",
        "+ mode.count <= limit_of(key, mode)",
        "+ mode.count <= limit_of(key, mode) + 1",
        _PERMITS,
    ),
    Sabotage(
        "permits-uncounted",
        "permits",
        "for i = 1, mode.count do parts[i] = attempt",
        "for i = 1, 1 do parts[i] = attempt",
        _PERMITS,
    ),
    Sabotage(
        "dead-readers-stay",
        "nothing left",
        'if call("PTTL", key) < ttl + 0 then call("PEXPIREAT", key, ends) else last_out(key) end',
        "",
        _KILLED,
    ),
    Sabotage(
        "part-of-a-lock",
        "all or nothing",
        "      join(key_of(name), waiter.attempt, mode, ttl, run.now)\n",
        "      if i < 3 then join(key_of(name), waiter.attempt, mode, ttl, run.now) end\n",
        _BUSY,
    ),
    Sabotage(
        "ticket-works-twice",
        "hand-over",
        "if owned(values, from) < #values then return {6} end",
        "if not values[1] then return {6} end",
        _HANDED,
    ),
    Sabotage(
        "adopted-with-old-token",
        "hand-over",
        "local token, names, before = next_number(),",
        "local token, names, before = tonumber((select(2, holder_in(values[1])))),",
        _HANDED,
    ),
    Sabotage(
        "handed-over-through-the-queue",
        "hand-over",
        "if owned(values, from) < #values then return {6} end",
        'if owned(values, from) < #values then return {6} end\ncall("DEL", unpack(KEYS, 2)) grant(new_run(false, false), names_in(KEYS))',
        _HANDED,
    ),
    Sabotage(
        "least-time-ignored",
        "at least",
        'call("PSETEX", keys[i + 1], rest, kept)',
        'call("PSETEX", keys[i + 1], 1, kept)',
        _BUSY,
    ),
    Sabotage(
        "rate-too-fast",
        "rate",
        "ahead = math.max(ahead - (now - at) * ticks, 0)",
        "ahead = math.max(ahead - (now - at) * ticks * 2, 0)",
        _RATED,
    ),
    Sabotage(
        "rate-counts-one",
        "rate",
        "if taken then ahead = ahead + cost end",
        "if taken then ahead = ahead + cost / 2 end",
        _RATED,
    ),
)
