"""The cells whose locks are more than mutexes: readers, permits, locks that are handed over or kept, and rates.

Clients of all languages contend for the same names, in all modes.
"""

from __future__ import annotations

from . import faults, switches
from .cell import Cell
from .settings import BUSY, CALM, MANIFOLD, SHARING, everybody, some

_KILLS = (faults.kill_holder, faults.kill_waiter)
_STOPS = (faults.stop_holder, faults.stop_waiter, faults.stop_granted)
_CUTS = ("before-send", "before-reply", "mid-reply", "half-open")
_MANIFOLD = BUSY.but(**MANIFOLD)
_CUT = _MANIFOLD.but(command_timeout=0.5, cancels=0.1)
#: Journals tell locks apart by the names that they write.
_GROUPED = _MANIFOLD.but(marked=True, cancels=0.05)
#: Few readers, and a single name: writers starve if they are overtaken.
_CROWD = CALM.but(reads=0.8, names=1, fewest=1, most=1, stay=0.02, rest=0.0, apart=True)


SHARING_CELLS = (
    Cell(
        "calm-sharing",
        "readers, writers and permits, no faults: two calls for each lock",
        CALM.but(**SHARING).each("blocking", "asyncio", "ruby-threads", "perl-coro"),
        exact=True,
        quick=True,
    ),
    Cell(
        "sharing",
        "readers, writers, permits, hand-overs, least times and rates in all models of all languages",
        everybody(_MANIFOLD),
        quick=True,
    ),
    Cell("crowd-sharing", "many readers and few writers of one name: nobody is overtaken", some(_CROWD)),
    Cell(
        "kill-sharing",
        "kill -9 of readers, writers and holders of permits in all languages",
        everybody(_MANIFOLD),
        faults=_KILLS,
        every=1.5,
    ),
    Cell("stop-sharing", "SIGSTOP of the same, up to three ttls", everybody(_MANIFOLD), faults=_STOPS),
    Cell("cut-sharing", "connections cut among the same", everybody(_CUT), cuts=_CUTS),
    Cell(
        "mixed-sharing",
        "clients with scripts and clients without them share names and permits; kill -9 and SIGSTOP",
        (*some(_MANIFOLD), *_MANIFOLD.but(handler="pure").each("blocking", "asyncio", "ruby-threads", "perl-threads")),
        faults=(*_KILLS, faults.stop_holder),
        ordered=False,
    ),
    Cell(
        "flush-sharing",
        "FLUSHALL, and forgotten functions, among readers, writers and permits",
        some(_MANIFOLD),
        faults=(faults.flush_all, faults.flush_functions),
        every=1.5,
    ),
    Cell(
        "failover-sharing",
        "kill -9 of the primary among readers, writers and permits in all languages, until the Sentinels have another one",
        everybody(_GROUPED),
        faults=(switches.kill_primary,),
        every=2.0,
        servers="sentinels",
        ordered=False,
    ),
    Cell(
        "cluster-sharing",
        "a cluster's slot goes from primary to primary with readers and permits; kill -9 of its primary",
        some(_GROUPED),
        faults=(switches.move_slot, switches.kill_primary),
        every=1.0,
        servers="cluster",
        ordered=False,
    ),
)
