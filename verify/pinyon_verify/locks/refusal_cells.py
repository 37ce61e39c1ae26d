"""The cells of the matrix whose servers say "not now", or are only nearly Redis."""

from __future__ import annotations

from . import refusals
from .cell import Cell
from .settings import BUSY, CALM, MODELS, Settings

#: Locks that nobody loses, so that a release that is forgotten keeps its names locked for the rest of the run. Whoever
#: asks while the server refuses is served later.
_PATIENT = CALM.but(cancels=0.1, waits_out=True)
#: fakeredis cuts the end of a lock to a whole second. Here a hundredth of a ttl, which clients leave out, is more.
_DOUBLED = Settings(ttl=200.0, heartbeat=2.0, long_stays=0.0, patience=30.0, cancels=0.1, workers=2)
_OTHERS = ("ruby-threads", "perl-coro")

#: Relays that refuse HELLO, and one that speaks RESP2 after it has accepted RESP3.
_HELLO = ("envoy", "redis-cluster-proxy", "acl", "miniredis", "older", "resp2-only", "disabled", "no-auth")
_UNDECLARED = ("dragonfly", "serverless", "undeclared", "hosted")


def _refused(name: str, what: str, *causes, **more) -> Cell:  # type: ignore[no-untyped-def]
    clients = _PATIENT.each(*MODELS, *_OTHERS)
    settled = {"every": 1.0, "within": 3.0, "ordered": False, "options": refusals.OPTIONS, **more}
    return Cell(name, what, clients, faults=causes, **settled)


def _voted(name: str, what: str, *causes, **more) -> Cell:  # type: ignore[no-untyped-def]
    settled = {"servers": "quorum", "ordered": False, "every": 1.0, "options": refusals.OPTIONS, **more}
    clients = _PATIENT.but(fairness="throughput", trusted=True).each(*MODELS, "blocking")
    return Cell(name, what, clients, faults=causes, **settled)


REFUSAL_CELLS = (
    _refused("busy-script", "a script runs for long: BUSY", refusals.run_long_script, quick=True),
    _refused("loading", "the server reads its data anew: LOADING", refusals.read_again),
    _refused("unsaved", "snapshots fail: MISCONF", refusals.fail_to_save),
    _refused("no-replicas", "too few replicas are connected: NOREPLICAS", refusals.lack_replicas, quick=True),
    Cell(
        "refusals",
        "all of that, to clients with scripts and without, whose locks are short",
        (*BUSY.each(*MODELS, *_OTHERS), *BUSY.each("blocking", "asyncio", handler="pure")),
        faults=(refusals.run_long_script, refusals.read_again, refusals.fail_to_save, refusals.lack_replicas),
        options=refusals.OPTIONS,
        ordered=False,
    ),
    Cell(
        "loading-restart",
        "kill -9 of a server that takes a while to load its data",
        BUSY.but(waits_out=True, tries=0.0).each(*MODELS, *_OTHERS),
        faults=(refusals.restart_slowly,),
        every=3.0,
        options=refusals.OPTIONS,
        ordered=False,
    ),
    Cell(
        "nearly-hello",
        "relays that answer HELLO as Envoy, redis-cluster-proxy, ACLs, miniredis and others do",
        BUSY.each(*MODELS, *_OTHERS, *MODELS, handler="auto"),
        relays=_HELLO,
        quick=True,
    ),
    Cell(
        "nearly-undeclared",
        "relays that refuse scripts which use keys that they have not declared",
        BUSY.but(handler="auto").each(*MODELS, "ruby-threads"),
        relays=_UNDECLARED,
    ),
    Cell(
        "fakeredis",
        "the double of Redis for tests, from PyPI, with and without scripts",
        (*_DOUBLED.but(handler="auto").each(*MODELS), _DOUBLED.but(handler="pure")),
        servers="fakeredis",
        traced=False,
        ordered=False,
        within=20.0,
    ),
    _voted("quorum-refused", "a minority refuses all requests for a while", refusals.refuse_by_minority, within=3.0),
    _voted("quorum-refusals", "a majority refuses all requests for a while", refusals.refuse_by_majority, within=5.0),
)
