"""The cells whose clients are candidates for a leadership, and what is broken on purpose there.

Candidates of all languages want to lead the same names. At most one of them does, by the rules of locks: all checks of locks
read their leaderships, too.
"""

from __future__ import annotations

from dataclasses import replace

from . import faults, quorum_faults, switches
from .cell import Cell
from .sabotage import Sabotage
from .settings import BUSY, CALM, Settings, each_model, some

#: Two names, and two candidates for them in each process.
_LEADING = {"leads": True, "names": 2, "most": 1, "workers": 2}
_CALM = CALM.but(**_LEADING, stay=0.05)
_BUSY = BUSY.but(**_LEADING, stay=0.1, long_stays=0.05)
_CUT = _BUSY.but(command_timeout=0.5)
_CUTS = ("before-send", "before-reply", "mid-reply", "half-open")
_KILLS = (faults.kill_holder, faults.kill_waiter)
_STOPS = (faults.stop_holder, faults.stop_waiter, faults.stop_granted)


LEADER_CELLS = (
    Cell(
        "calm-leaders",
        "candidates of all languages lead in turn, and resign; no faults",
        each_model(_CALM),
        quick=True,
    ),
    Cell("apart-leaders", "each candidate with a connection of its own", each_model(_BUSY.but(apart=True))),
    Cell("kill-leaders", "kill -9 of leaders and candidates", each_model(_BUSY), faults=_KILLS, quick=True),
    Cell("stop-leaders", "SIGSTOP of the same, up to three ttls", each_model(_BUSY), faults=_STOPS),
    Cell("cut-leaders", "connections cut among leaders and candidates", each_model(_CUT), cuts=_CUTS),
    Cell(
        "pause-leaders",
        "SIGSTOP of the server: leaders lose, candidates pause",
        each_model(_CUT),
        faults=(faults.pause_server,),
        every=1.5,
    ),
    Cell(
        "lost-leaders",
        "leaders are released by force, or all is emptied; functions are forgotten",
        each_model(_BUSY),
        faults=(faults.delete_locks, faults.flush_all, faults.flush_functions),
    ),
    Cell(
        "mixed-leaders",
        "candidates with scripts and candidates without them; kill -9 and SIGSTOP",
        (*some(_BUSY), *some(_BUSY.but(handler="pure"))),
        faults=(*_KILLS, faults.stop_holder),
        ordered=False,
    ),
    Cell(
        "failover-leaders",
        "kill -9 and SIGSTOP of the primary, until the Sentinels have another one",
        each_model(_CUT),
        faults=(switches.kill_primary, switches.stop_primary),
        every=2.0,
        servers="sentinels",
        ordered=False,
    ),
    Cell(
        "cluster-leaders",
        "a cluster's slot goes from primary to primary; kill -9 of its primary",
        some(_CUT),
        faults=(switches.move_slot, switches.kill_primary),
        every=1.0,
        servers="cluster",
        ordered=False,
    ),
    Cell(
        "quorum-leaders",
        "leaders on five servers, of which a minority is killed, stopped and cut off",
        some(_CUT.but(fairness="throughput")),
        faults=(quorum_faults.kill_minority, quorum_faults.stop_minority, quorum_faults.cut_minorities),
        servers="quorum",
        ordered=False,
    ),
)


def _wrong(name: str, settings: Settings) -> tuple[Settings, ...]:
    return settings.but(wrong=name).each("blocking", "gevent", "blocking")


_STOPPED = Cell("", "", _wrong("believes-on", _BUSY), faults=(faults.stop_holder,), every=0.3)
_QUIET = Cell("", "", each_model(_CALM))

LEADER_SABOTAGES = (
    Sabotage("leader-believes-on", "belief", "", "", _STOPPED, seconds=4.0),
    Sabotage("leader-releases-first", "leader", "", "", replace(_QUIET, clients=_wrong("releases-first", _CALM))),
    Sabotage("leader-loses-untold", "leader", "", "", replace(_QUIET, clients=_wrong("loses-untold", _CALM))),
    Sabotage(
        "leaders-tokens-repeat",
        "tokens",
        'local token = call("INCR", counter)',
        'local token = tonumber(call("GET", counter) or 0)',
        _QUIET,
        (('local number = call("INCR", counter)', 'local number = tonumber(call("GET", counter) or 0)'),),
    ),
    Sabotage(
        "leaders-out-of-turn",
        "order",
        "waiter.ticket = format(wide, ticket)",
        "waiter.ticket = format(wide, 9007199254740991 - ticket)",
        replace(_QUIET, clients=each_model(_CALM.but(apart=True))),
        seconds=5.0,
    ),
    Sabotage(
        "no-leader-again",
        "liveness",
        "local handed_over, deaf\n",
        "local grant, hand_over = function() end, function() end\nlocal handed_over, deaf\n",
        _QUIET,
        (("    grant(run, names)\n    values = call(", "    values = call("),),
        seconds=6.0,
    ),
)
