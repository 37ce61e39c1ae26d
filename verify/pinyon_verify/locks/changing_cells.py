"""The cells whose holders upgrade what they read and downgrade what they write, and what is broken on purpose there.

Clients of all languages do so among each other.
"""

from __future__ import annotations

from dataclasses import replace

from . import changing_scenarios, faults
from .cell import Cell
from .sabotage import Sabotage
from .settings import BUSY, CALM, MODELS, Settings, everybody, some

_CHANGES = {"reads": 0.6, "changes": 0.5, "permits": 0.1}
_CALM = CALM.but(**_CHANGES, names=4, most=3)
_BUSY = BUSY.but(**_CHANGES, names=4, most=3)
_CUTS = ("before-send", "before-reply", "mid-reply", "half-open")


def _python(settings: Settings) -> tuple[Settings, ...]:
    return settings.each(*MODELS, "blocking")


_SCRIPTED = Cell(
    "changed-in-turn",
    "a downgrade lets in the reader that waits; the second of two upgrades is refused",
    (CALM,),
    ordered=False,
    quick=True,
    scenario=changing_scenarios.changed_in_turn,
)

#: An upgrade passes those that hold nothing, whenever they came.
CHANGING_CELLS = (
    _SCRIPTED,
    Cell(
        "calm-changing",
        "upgrades and downgrades, no faults: each waiter is woken",
        everybody(_CALM),
        ordered=False,
        quick=True,
    ),
    Cell(
        "kill-changing",
        "kill -9 of readers, writers and those that wait for an upgrade",
        everybody(_BUSY),
        faults=(faults.kill_holder, faults.kill_waiter),
        ordered=False,
        quick=True,
    ),
    Cell(
        "stop-changing",
        "SIGSTOP of the same, up to three ttls",
        everybody(_BUSY),
        faults=(faults.stop_holder, faults.stop_waiter, faults.stop_granted),
        ordered=False,
    ),
    Cell(
        "cut-changing",
        "connections cut among upgrades and downgrades",
        everybody(_BUSY.but(command_timeout=0.5, cancels=0.1)),
        cuts=_CUTS,
        ordered=False,
    ),
    Cell(
        "mixed-changing",
        "clients with scripts and clients without them change their modes; kill -9 and SIGSTOP",
        (*some(_BUSY), *some(_BUSY.but(handler="pure"))),
        faults=(faults.kill_holder, faults.kill_waiter, faults.stop_holder),
        ordered=False,
    ),
)

_QUIET = Cell("", "", _python(_CALM.but(patience=8.0)), ordered=False)
#: Readers are inside for long, many at a time.
_CROWD = Cell("", "", _python(_CALM.but(patience=8.0, names=1, most=1, stay=0.1, permits=0.0)), ordered=False)
_HURRIED = Cell("", "", _python(_BUSY), ordered=False)

#: How an upgrade that need not wait gets what it is to write.
_OCCUPIES = 'occupy(run, me, attempt .. " " .. format(whole, reply))'

CHANGING_SABOTAGES = (
    Sabotage(
        "upgraded-beside-readers",
        "exclusion",
        "if ends and ends > last then last, other = ends, who end",
        "",
        _CROWD,
        ((" and not others_end(key, attempt, now)", ""),),
    ),
    Sabotage(
        "upgraded-through-the-queue",
        "change",
        "reply = next_number()\n  " + _OCCUPIES,
        'call("DEL", unpack(KEYS, 2)) grant(new_run(false, false), names_in(KEYS)) reply = next_number() '
        'call("PSETEX", KEYS[2], ttl, attempt .. " " .. format(whole, reply) .. " " .. ttl)',
        _CROWD,
    ),
    Sabotage(
        "upgraded-with-old-token",
        "tokens",
        "reply = next_number()\n  occupy(run, me,",
        "reply = seen\n  occupy(run, me,",
        _HURRIED,
    ),
    Sabotage(
        "second-upgrade-waits",
        "in time",
        'reply = cycle(run, attempt, in_the_way(run, keys, 1, me, call("MGET", unpack(keys))))',
        "reply = nil",
        _QUIET,
        seconds=4.0,
    ),
    Sabotage(
        "downgraded-to-nothing",
        "belief",
        "    join(key, attempt, mode or reader, ttl, run.now)\n  elseif not at_once",
        "    if not value then join(key, attempt, mode or reader, ttl, run.now) end\n  elseif not at_once",
        replace(_HURRIED, clients=_python(_BUSY.but(long_stays=0.2))),
    ),
    Sabotage(
        "downgrade-not-told",
        "said",
        "if #read > 0 then make_due(run, read) end",
        "",
        _SCRIPTED,
    ),
)
