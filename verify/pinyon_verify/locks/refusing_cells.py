"""The cells whose servers answer "not now", and those behind relays and doubles that are nearly Redis."""

from __future__ import annotations

from . import refusals
from .cell import Cell
from .relay import MANNERS
from .settings import Settings

_MODELS = ("blocking", "gevent", "asyncio", "blocking")
#: Locks that expire often, and waiters that give up.
_BUSY = Settings(cancels=0.1, tries=0.05, unrenewed=0.05, stay=0.002, long_stays=0.005)
_CLIENTS = tuple(_BUSY.but(model=model) for model in _MODELS)
#: No client steps down to plain commands because a server says "not now".
_AUTO = tuple(each.but(handler="auto") for each in _CLIENTS)
_IN_OTHER_LANGUAGES = tuple(
    _BUSY.but(model=model, handler="auto") for model in ("blocking", "ruby-threads", "ruby-async", "perl-coro")
)

REFUSING_CELLS = (
    Cell(
        "script-busy",
        "a script of others takes long: BUSY",
        _AUTO,
        faults=(refusals.run_script,),
        every=1.5,
        options=("--busy-reply-threshold", "20"),
        quick=True,
    ),
    Cell(
        "script-busy-other",
        "a script of others takes long, with Ruby's clients and Perl's",
        _IN_OTHER_LANGUAGES,
        faults=(refusals.run_script,),
        every=1.5,
        options=("--busy-reply-threshold", "20"),
    ),
    Cell("no-replicas", "too few replicas: NOREPLICAS", _AUTO, faults=(refusals.miss_replicas,), every=1.5, quick=True),
    Cell(
        "no-replicas-other",
        "too few replicas, with Ruby's clients and Perl's",
        _IN_OTHER_LANGUAGES,
        faults=(refusals.miss_replicas,),
        every=1.5,
    ),
    Cell(
        "no-snapshot",
        "snapshots fail: MISCONF",
        _AUTO,
        faults=(refusals.fail_to_save,),
        every=1.5,
        options=("--save", "3600 1000000"),
    ),
    Cell(
        "loading",
        "kill -9 of a server that then loads for a second: LOADING",
        tuple(each.but(cancels=0.05) for each in _AUTO),
        faults=(refusals.restart_while_loading,),
        every=3.0,
        persistence="rdb",
        options=refusals.SLOW_TO_LOAD,
        prepare=refusals.prepare_loading,
    ),
    *(
        Cell(
            f"relay-{manner}",
            "behind a relay that refuses " + ("HELLO" if manner.startswith("hello") else "undeclared keys"),
            _AUTO,
            relay=manner,
            quick=manner.endswith(("envoy", "dragonfly")),
        )
        for manner in MANNERS
    ),
    Cell(
        "fakeredis",
        "the double that Python's programs test with",
        # Its keys end up to a second early.
        tuple(each.but(handler="auto", workers=1, ttl=20.0, unrenewed=0.0, long_stays=0.0) for each in _CLIENTS),
        servers="double",
        traced=False,
        slack=10.0,
    ),
)
