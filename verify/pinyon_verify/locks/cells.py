"""The matrix: every cell with its clients and faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import faults, scenarios
from .cell import Cell
from .changing_cells import CHANGING_CELLS
from .group_cells import GROUP_CELLS
from .leader_cells import LEADER_CELLS
from .refusal_cells import REFUSAL_CELLS
from .settings import BUSY, CALM, MODELS, PERL, RUBY, Settings
from .sharing_cells import SHARING_CELLS

#: A user with exactly the permissions that the pure handler needs according to the documentation.
PLAIN_USER = (
    "plain on >secret ~{verify}:* &{verify}:* +ping +info +subscribe +publish +time +multi +exec +watch +unwatch"
    " +exists +set +msetnx +incr +mget +pexpire +pttl +del"
)


def _all(settings: Settings) -> tuple[Settings, ...]:
    """One client of each model, and one extra."""
    return settings.each(*MODELS, "blocking")


def _ruby(settings: Settings, *others: str) -> tuple[Settings, ...]:
    return settings.each(*others, *RUBY)


def _perl(settings: Settings, *others: str) -> tuple[Settings, ...]:
    """One client of each of Perl's models, and of others. One is cancelled by a handler that dies, so it is alone."""
    return (*settings.each(*PERL, *others), settings.but(model="perl-alarm", workers=1))


CUTS = ("before-send", "before-reply", "mid-reply", "half-open")
KILLS = (faults.kill_holder, faults.kill_waiter)
NO_HELLO = ("--rename-command", "HELLO", "")
_CUT = BUSY.but(command_timeout=0.5, cancels=0.1)
_LOST = BUSY.but(cancels=0.05)


def _contending(
    language: str, models: tuple[str, ...], clients: Callable[..., tuple[Settings, ...]]
) -> tuple[Cell, ...]:
    """The cells in which clients of another language contend with Python's."""
    it, nested = language.lower(), clients(BUSY.but(nested=0.4, most=3), "blocking", "gevent")
    both = f"{language}'s clients and Python's"
    killed = clients(BUSY, "blocking", "asyncio")
    stops = (*KILLS, faults.stop_holder, faults.stop_waiter)
    in_any_order = f"nested locks of {language} and Python in any order: a deadlock is reported"
    killed_inside = f"kill -9 among {both} that hold others"
    apart = f"each worker of {language} with a connection of its own"
    return (
        Cell(f"kill-{it}", f"kill -9 and SIGSTOP among {both}", killed, faults=stops, quick=True),
        Cell(f"cut-{it}", f"connections cut among {both}", clients(_CUT, "blocking", "asyncio"), cuts=CUTS),
        Cell(f"nested-{it}", in_any_order, nested, ordered=False, quick=language == "Ruby"),
        Cell(f"kill-nested-{it}", killed_inside, nested, faults=KILLS, ordered=False),
        Cell(f"apart-{it}", apart, BUSY.but(apart=True).each(*models, *models)),
    )


#: A cancelled task acquires in a new task, which is then the owner, so nothing is nested in its locks.
_NESTED = tuple(
    each.but(cancels=0.0) if each.model == "asyncio" else each for each in _all(BUSY.but(nested=0.4, most=3))
)

CELLS = (
    Cell("calm-threads", "threads, no faults: two calls for each lock", CALM.each(*4 * ["blocking"]), exact=True),
    Cell("calm-gevent", "greenlets, no faults", CALM.each(*4 * ["gevent"]), exact=True),
    Cell("calm-asyncio", "tasks, no faults", CALM.each(*4 * ["asyncio"]), exact=True, quick=True),
    Cell("busy", "all models; short ttls, cancels, locks left to run out", _all(BUSY)),
    Cell("busy-apart", "each worker with a connection of its own", _all(BUSY.but(apart=True))),
    Cell("throughput", "throughput before order", _all(BUSY.but(fairness="throughput")), ordered=False),
    Cell("pure", "plain commands only", _all(BUSY.but(handler="pure")), ordered=False),
    Cell(
        "mixed-handlers",
        "clients with scripts and clients without them, on the same names",
        BUSY.each(*MODELS) + BUSY.but(handler="pure").each(*MODELS),
        ordered=False,
        quick=True,
    ),
    Cell("cancel-storm", "nearly all waiters are cancelled", _all(BUSY.but(cancels=0.8, cancel_within=0.006))),
    Cell(
        "cancel-pure",
        "nearly all waiters are cancelled, without scripts",
        _all(BUSY.but(cancels=0.8, cancel_within=0.006, handler="pure")),
        ordered=False,
    ),
    Cell(
        "cancel-steps",
        "coroutines are cancelled after each number of turns",
        BUSY.but(cancels=0.7, stepwise=True).each("gevent", "asyncio", "gevent", "asyncio"),
    ),
    Cell("kill-holder", "kill -9 of a holder", _all(BUSY), faults=(faults.kill_holder,), quick=True),
    Cell("kill-waiter", "kill -9 of a waiter", _all(BUSY), faults=(faults.kill_waiter,)),
    Cell("kill-granted", "kill -9 of a stopped waiter that was granted", _all(BUSY), faults=(faults.kill_granted,)),
    Cell(
        "kill-pure",
        "kill -9, with clients without scripts",
        BUSY.but(handler="pure").each(*MODELS) + BUSY.each("blocking"),
        faults=(faults.kill_holder,),
        ordered=False,
    ),
    Cell("stop-holder", "SIGSTOP of a holder, up to three ttls", _all(BUSY), faults=(faults.stop_holder,)),
    Cell("stop-waiter", "SIGSTOP of a waiter", _all(BUSY), faults=(faults.stop_waiter,)),
    Cell("stop-granted", "SIGSTOP of a waiter until after it was granted", _all(BUSY), faults=(faults.stop_granted,)),
    Cell(
        "stop-pure",
        "SIGSTOP, with clients without scripts",
        BUSY.but(handler="pure").each(*MODELS) + BUSY.each("blocking"),
        faults=(faults.stop_holder,),
        ordered=False,
    ),
    Cell(
        "server-pause",
        "SIGSTOP of the server",
        _all(BUSY.but(command_timeout=0.5)),
        faults=(faults.pause_server,),
        every=1.5,
    ),
    Cell(
        "restart-empty",
        "kill -9 of a server that keeps nothing",
        _all(_LOST),
        faults=(faults.restart_server,),
        every=3.0,
    ),
    Cell(
        "restart-rdb",
        "kill -9 of a server with snapshots",
        _all(_LOST),
        faults=(faults.restart_server,),
        every=3.0,
        persistence="rdb",
    ),
    Cell(
        "restart-aof",
        "kill -9 of a server with a log, synchronised each second",
        _all(_LOST),
        faults=(faults.restart_server,),
        every=3.0,
        persistence="aof",
    ),
    Cell("cut-before-send", "connections cut before a request is passed on", _all(_CUT), cuts=("before-send",)),
    Cell(
        "cut-before-reply", "connections cut between request and reply", _all(_CUT), cuts=("before-reply",), quick=True
    ),
    Cell("cut-mid-reply", "connections cut in the middle of a reply", _all(_CUT), cuts=("mid-reply",)),
    Cell("half-open", "connections that stay open but carry nothing", _all(_CUT), cuts=("half-open",)),
    Cell(
        "cut-pure",
        "all kinds of cuts, with clients without scripts",
        _CUT.but(handler="pure").each(*MODELS) + _CUT.each("blocking"),
        cuts=CUTS,
        ordered=False,
    ),
    Cell(
        "client-clocks",
        "clients whose wall clocks are minutes wrong, and jump",
        _all(BUSY),
        faults=(faults.move_client_clocks,),
        skews=(-600, 600, 0, 3600),
    ),
    Cell(
        "server-clock-on",
        "the server's clock jumps a minute forward, then back",
        _all(_LOST),
        faults=(partial(faults.move_clock, seconds=60),),
        every=3.0,
        moves_clock=True,
    ),
    Cell(
        "server-clock-back",
        "the server's clock jumps an hour back, then forward",
        _all(_LOST),
        faults=(partial(faults.move_clock, seconds=-3600),),
        every=3.0,
        moves_clock=True,
    ),
    Cell(
        "function-flush", "the server forgets its functions", _all(BUSY), faults=(faults.flush_functions,), quick=True
    ),
    Cell(
        "flush-cancels",
        "the server forgets its functions while nearly all waiters are cancelled",
        _all(BUSY.but(cancels=0.8, cancel_within=0.006)),
        faults=(faults.flush_functions,),
        every=0.05,
    ),
    Cell(
        "script-flush",
        "no functions; the server forgets its scripts",
        _all(BUSY),
        faults=(faults.flush_scripts,),
        options=("--rename-command", "FUNCTION", "", "--rename-command", "FCALL", ""),
    ),
    Cell("flush-all", "FLUSHALL", _all(_LOST), faults=(faults.flush_all,), every=1.5),
    Cell("operator-del", "an operator deletes locks", _all(_LOST), faults=(faults.delete_locks,), every=0.5),
    Cell("queue-del", "an operator deletes the queue, or the counter", _all(_LOST), faults=(faults.delete_queue,)),
    Cell(
        "chaos",
        "kills, stops, cuts, pauses and forgotten functions at once, all models and handlers",
        (*_CUT.but(conditions=0.05).each(*MODELS), *_CUT.but(handler="pure").each("asyncio", "blocking")),
        faults=(
            faults.kill_holder,
            faults.kill_waiter,
            faults.stop_holder,
            faults.stop_waiter,
            faults.pause_server,
            faults.flush_functions,
        ),
        cuts=CUTS,
        ordered=False,
    ),
    Cell("conditions", "holders wait on conditions, and notify", _all(BUSY.but(conditions=0.3, unrenewed=0.0))),
    Cell("kill-conditions", "kill -9 while others wait on conditions", _all(BUSY.but(conditions=0.3)), faults=KILLS),
    Cell(
        "cut-conditions", "connections cut while others wait on conditions", _all(_CUT.but(conditions=0.3)), cuts=CUTS
    ),
    Cell("nested", "nested locks in any order: a deadlock is reported", _NESTED, ordered=False, quick=True),
    Cell("kill-nested", "kill -9 of holders and waiters that hold others", _NESTED, faults=KILLS, ordered=False),
    Cell(
        "evict",
        "a server with maxmemory whose policy evicts locks",
        _all(_LOST),
        faults=(faults.evict,),
        every=1.5,
        ordered=False,
        options=("--maxmemory-policy", "allkeys-random"),
    ),
    Cell(
        "restricted",
        "a user without permission for scripts, beside clients that use scripts",
        BUSY.but(handler="auto", login="plain:secret@").each(*MODELS) + BUSY.each("blocking"),
        ordered=False,
        options=("--user", *PLAIN_USER.split()),
        quick=True,
    ),
    Cell(
        "resp2",
        "a server with RESP2 only: pushes arrive on a second connection",
        _all(BUSY),
        options=NO_HELLO,
        quick=True,
    ),
    Cell("kill-resp2", "kill -9 with RESP2", _all(BUSY), faults=KILLS, options=NO_HELLO),
    Cell("cut-resp2", "connections cut with RESP2, one of two at a time", _all(_CUT), cuts=CUTS, options=NO_HELLO),
    Cell("ruby", "Ruby's threads and fibers beside Python's models", BUSY.each(*MODELS, *RUBY), quick=True),
    Cell(
        "conditions-ruby",
        "Ruby's holders and Python's wait on conditions, and notify each other",
        BUSY.but(conditions=0.3, unrenewed=0.0).each("blocking", "asyncio", *RUBY),
        quick=True,
    ),
    Cell(
        "cut-conditions-ruby",
        "connections cut while Ruby's holders and Python's wait on conditions",
        _CUT.but(conditions=0.3).each("blocking", *RUBY),
        cuts=CUTS,
    ),
    Cell(
        "fork-ruby",
        "forks of Ruby's threads and fibers inside critical sections while others wait",
        BUSY.but(forks=0.03).each(*RUBY, "blocking"),
    ),
    Cell(
        "calm-perl",
        "Perl's threads and coroutines, no faults: two calls for each lock",
        CALM.each(*PERL, *PERL),
        exact=True,
    ),
    Cell("perl", "Perl's models beside Python's and Ruby's", _perl(BUSY, *MODELS, "ruby-threads"), quick=True),
    Cell(
        "cancel-perl",
        "nearly all of Perl's waiters are cancelled: by a timeout, a handler that dies, or a throw",
        (*_perl(BUSY.but(cancels=0.8, cancel_within=0.006)), BUSY.but(cancels=0.7, stepwise=True, model="perl-coro")),
        quick=True,
    ),
    Cell(
        "conditions-perl",
        "Perl's holders and Python's wait on conditions, and notify each other; connections are cut",
        _perl(_CUT.but(conditions=0.3), "blocking", "asyncio"),
        cuts=CUTS,
    ),
    Cell(
        "fork-perl",
        "forks of Perl's threads and coroutines inside critical sections while others wait",
        _perl(BUSY.but(forks=0.03), "blocking"),
    ),
    *_contending("Ruby", RUBY, _ruby),
    *_contending("Perl", PERL, _perl),
    Cell("fork", "forks inside critical sections while others wait", BUSY.but(forks=0.03).each(*3 * ["blocking"])),
    Cell(
        "overload",
        "200 waiters for 50 of 60 names, with short ttls",
        Settings(workers=50, apart=True, names=60, fewest=50, most=50, ttl=0.1, heartbeat=1.0, stay=0.002).each(
            *MODELS, "asyncio"
        ),
        traced=False,
        slack=10.0,
    ),
    Cell(
        "overtaken-waiter",
        "W1 waits for A and B, W2 for A: the waiter that can continue wakes",
        (CALM,),
        ordered=False,
        scenario=scenarios.overtaken_waiter,
        quick=True,
    ),
    *SHARING_CELLS,
    *CHANGING_CELLS,
    *LEADER_CELLS,
    *REFUSAL_CELLS,
    *GROUP_CELLS,
)
