"""The cells of the matrix whose servers say "not now", or are only nearly Redis."""

from __future__ import annotations

from . import refusals
from .cell import Cell
from .settings import Settings

#: Locks that nobody loses, so that a release that is forgotten keeps its names locked for the rest of the run. Whoever
#: asks while the server refuses is served later.
_PATIENT = Settings(ttl=60.0, heartbeat=60.0, long_stays=0.0, patience=30.0, cancels=0.1, waits_out=True)
_BUSY = Settings(cancels=0.15, tries=0.05, unrenewed=0.05, stay=0.002, long_stays=0.005)
#: fakeredis cuts the end of a lock to a whole second. Here a hundredth of a ttl, which clients leave out, is more.
_DOUBLED = Settings(ttl=200.0, heartbeat=2.0, long_stays=0.0, patience=30.0, cancels=0.1, workers=2)
_MODELS = ("blocking", "gevent", "asyncio")
_OTHERS = ("ruby-threads", "perl-coro")

#: Relays that refuse HELLO, and one that speaks RESP2 after it has accepted RESP3.
_HELLO = ("envoy", "redis-cluster-proxy", "acl", "miniredis", "older", "resp2-only", "disabled", "no-auth")
_UNDECLARED = ("dragonfly", "serverless", "undeclared", "hosted")


def _each(settings: Settings, *models: str, **changes: object) -> tuple[Settings, ...]:
    return tuple(settings.but(model=model, **changes) for model in models)


def _refused(name: str, what: str, *causes, **more) -> Cell:  # type: ignore[no-untyped-def]
    clients = _each(_PATIENT, *_MODELS, *_OTHERS)
    settled = {"every": 1.0, "within": 3.0, "ordered": False, "options": refusals.OPTIONS, **more}
    return Cell(name, what, clients, faults=causes, **settled)


def _voted(name: str, what: str, *causes, **more) -> Cell:  # type: ignore[no-untyped-def]
    settled = {"servers": "quorum", "ordered": False, "every": 1.0, "options": refusals.OPTIONS, **more}
    clients = _each(_PATIENT.but(fairness="throughput", trusted=True), *_MODELS, "blocking")
    return Cell(name, what, clients, faults=causes, **settled)


REFUSAL_CELLS = (
    _refused("busy-script", "a script runs for long: BUSY", refusals.run_long_script, quick=True),
    _refused("loading", "the server reads its data anew: LOADING", refusals.read_again),
    _refused("unsaved", "snapshots fail: MISCONF", refusals.fail_to_save),
    _refused("no-replicas", "too few replicas are connected: NOREPLICAS", refusals.lack_replicas, quick=True),
    Cell(
        "refusals",
        "all of that, to clients with scripts and without, whose locks are short",
        (*_each(_BUSY, *_MODELS, *_OTHERS), *_each(_BUSY, "blocking", "asyncio", handler="pure")),
        faults=(refusals.run_long_script, refusals.read_again, refusals.fail_to_save, refusals.lack_replicas),
        options=refusals.OPTIONS,
        ordered=False,
    ),
    Cell(
        "loading-restart",
        "kill -9 of a server that takes a while to load its data",
        _each(_BUSY.but(waits_out=True, tries=0.0), *_MODELS, *_OTHERS),
        faults=(refusals.restart_slowly,),
        every=3.0,
        options=refusals.OPTIONS,
        ordered=False,
    ),
    Cell(
        "nearly-hello",
        "relays that answer HELLO as Envoy, redis-cluster-proxy, ACLs, miniredis and others do",
        tuple(_BUSY.but(model=model, handler="auto") for model in (*_MODELS, *_OTHERS, *_MODELS)),
        relays=_HELLO,
        quick=True,
    ),
    Cell(
        "nearly-undeclared",
        "relays that refuse scripts which use keys that they have not declared",
        _each(_BUSY.but(handler="auto"), *_MODELS, "ruby-threads"),
        relays=_UNDECLARED,
    ),
    Cell(
        "fakeredis",
        "the double of Redis for tests, from PyPI, with and without scripts",
        (*_each(_DOUBLED.but(handler="auto"), *_MODELS), _DOUBLED.but(handler="pure")),
        servers="fakeredis",
        traced=False,
        ordered=False,
        within=20.0,
    ),
    _voted("quorum-refused", "a minority refuses all requests for a while", refusals.refuse_by_minority, within=3.0),
    _voted("quorum-refusals", "a majority refuses all requests for a while", refusals.refuse_by_majority, within=5.0),
)
