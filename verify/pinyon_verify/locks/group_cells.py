"""The cells of the matrix with more servers than one."""

from __future__ import annotations

from functools import partial
from typing import Any

from . import faults, group_scenarios, quorum_faults, switches
from .cell import Cell, Injector
from .settings import MODELS, Settings

#: Locks that expire often, and waiters that often give up.
_BUSY = Settings(cancels=0.05, tries=0.05, unrenewed=0.05, stay=0.002, long_stays=0.01)


_ALL = _BUSY.each(*MODELS, "blocking")
#: A server that does not answer is noticed after so long.
_ALERT = _BUSY.but(command_timeout=0.5).each(*MODELS, "blocking")
_MIXED = (*_BUSY.each(*MODELS, "ruby-threads", "perl-coro"), _BUSY.but(handler="pure"))


def _cell(servers: str, name: str, what: str, clients: tuple[Settings, ...], *causes: Injector, **more: Any) -> Cell:
    return Cell(name, what, clients, faults=causes, servers=servers, **{"ordered": False, **more})


_watched = partial(_cell, "sentinels", every=2.0)
SENTINEL_CELLS = (
    _watched(
        "failover", "Sentinels make a replica the primary; clients of all models follow them", _ALL, switches.fail_over
    ),
    _watched(
        "kill-primary",
        "kill -9 of the primary, until the Sentinels have another one; it returns with data or without",
        _MIXED,
        switches.kill_primary,
    ),
    _watched(
        "stop-primary",
        "SIGSTOP of the primary, until the Sentinels have another one; then it goes on",
        _ALERT,
        switches.stop_primary,
    ),
    _watched(
        "split-primary",
        "the primary is cut off from its replicas and Sentinels; clients reach all of them",
        _ALL,
        switches.split_primary,
        quick=True,
    ),
    _watched(
        "split-clients",
        "the primary and some clients are cut off from the other servers, the Sentinels and the other clients",
        _ALERT,
        switches.split_all,
    ),
    _watched(
        "clients-cut-off",
        "some clients do not reach the primary, or no majority of the Sentinels: nothing is lost",
        _ALERT,
        switches.cut_off_clients,
        switches.cut_off_the_sentinels,
        every=1.0,
    ),
    _watched(
        "sentinel-cut-off",
        "kill -9 of the primary while clients do not reach one of the Sentinels",
        _ALERT,
        switches.cut_off_a_sentinel,
    ),
    _watched(
        "misled",
        "all Sentinels tell some clients that a replica is the primary: nobody takes a lock there",
        _ALERT,
        switches.misled_by_sentinels,
        every=1.0,
    ),
    _watched(
        "lost-counter",
        "kill -9 of the primary; the next one has never heard of the counter",
        _ALL,
        switches.lose_counter,
    ),
    _watched(
        "repeated-request",
        "the answer to a request is lost with the primary: the next one gives what was given",
        _ALL[:1],
        scenario=group_scenarios.repeated_request,
    ),
    _watched(
        "restart-primary",
        "the primary is restarted with its data before anyone calls it down: nothing is lost",
        _ALL,
        switches.restart_primary,
    ),
    _watched(
        "restart-primary-empty",
        "the primary is restarted without its data, and its replicas lose theirs",
        _ALL,
        switches.restart_primary_empty,
    ),
    _watched(
        "failover-clock-on",
        "kill -9 of the primary; the clock of the next one is a minute fast",
        _ALL,
        partial(switches.kill_primary_with_clocks, seconds=60),
        moves_clock=True,
    ),
    _watched(
        "failover-clock-back",
        "kill -9 of the primary; the clock of the next one is an hour slow",
        _ALL,
        partial(switches.kill_primary_with_clocks, seconds=-3600),
        moves_clock=True,
    ),
)


_clustered = partial(_cell, "cluster", every=2.0)
#: Locks that may outlive the time between the old primary and the new one, which does not know the last of them.
_OUTLIVING = tuple(each.but(ttl=1.5) for each in _ALL)
_TAGGED = tuple(each.but(tags=3, names=3, most=3) for each in _ALL)

CLUSTER_CELLS = (
    _clustered(
        "cluster-kill",
        "kill -9 of a cluster's primary, until its replica took over; it returns with data or without",
        _MIXED,
        switches.kill_primary,
    ),
    _clustered(
        "cluster-kill-tags",
        "the same for locks on all primaries, of which the others serve on",
        _TAGGED,
        switches.kill_primary,
        options=("--cluster-require-full-coverage", "no"),
    ),
    _clustered(
        "cluster-stop",
        "SIGSTOP of a cluster's primary, until its replica took over; then it goes on",
        _ALERT,
        switches.stop_primary,
    ),
    _clustered(
        "cluster-split",
        "a cluster's primary is cut off from all other nodes; clients reach all of them",
        _OUTLIVING,
        switches.split_primary,
        linked=True,
    ),
    _clustered(
        "cluster-split-clients",
        "a cluster's primary and some clients are cut off from the other nodes and the other clients",
        tuple(each.but(command_timeout=0.5) for each in _OUTLIVING),
        switches.split_all,
        linked=True,
    ),
    _clustered("cluster-failover", "CLUSTER FAILOVER: nothing is lost", _ALL, switches.fail_over_cluster, every=1.0),
    _clustered(
        "cluster-slot",
        "the slot goes from primary to primary under load: nothing is lost",
        _ALL,
        switches.move_slot,
        every=0.5,
        quick=True,
    ),
    _clustered(
        "cluster-slot-tags",
        "the same for locks on all primaries, which move one after another, and fail over",
        _TAGGED,
        switches.move_slot,
        switches.fail_over_cluster,
        every=0.5,
    ),
    _clustered(
        "cluster-clock-on",
        "kill -9 of a cluster's primary; the clock of the replica that takes over is a minute fast, or right again",
        _ALL,
        partial(switches.kill_node_with_clock, seconds=60),
        moves_clock=True,
    ),
    _clustered(
        "cluster-clock-back",
        "kill -9 of a cluster's primary; the clock of the replica that takes over is an hour slow, or right again",
        _ALL,
        partial(switches.kill_node_with_clock, seconds=-3600),
        moves_clock=True,
    ),
)


_quorum = partial(_cell, "quorum")
_VOTED = tuple(each.but(fairness="throughput") for each in _ALERT)
_LONG = tuple(each.but(long_stays=0.05) for each in _VOTED)

QUORUM_CELLS = (
    _quorum("quorum", "locks on five servers, without faults", _VOTED),
    _quorum(
        "quorum-kill", "kill -9 of a minority; it returns with data or without", _LONG, quorum_faults.kill_minority
    ),
    _quorum("quorum-stop", "SIGSTOP of a minority", _LONG, quorum_faults.stop_minority),
    _quorum("quorum-cut", "each client is cut off from another minority", _LONG, quorum_faults.cut_minorities),
    _quorum(
        "quorum-split",
        "some clients reach only a minority, the others only the majority",
        _LONG,
        quorum_faults.split,
        every=1.5,
    ),
    _quorum(
        "quorum-clocks",
        "the clocks of a minority jump on and back",
        _LONG,
        quorum_faults.move_clocks_of_minority,
        moves_clock=True,
    ),
    _quorum(
        "quorum-turns", "all servers are restarted without their data, in turn", _LONG, quorum_faults.restart_in_turn
    ),
    _quorum(
        "quorum-majority",
        "a majority is killed and returns with its data, or is stopped",
        _LONG,
        quorum_faults.kill_majority,
        quorum_faults.stop_majority,
        every=2.0,
    ),
    _quorum(
        "quorum-majority-empty",
        "a majority is killed and returns without its data: it has no vote for a while",
        _LONG,
        quorum_faults.kill_majority_empty,
        every=2.0,
    ),
    _quorum(
        "quorum-holders",
        "kill -9 and SIGSTOP of clients while a minority of servers is killed, stopped and cut off",
        _LONG,
        faults.stop_any,
        faults.kill_any,
        quorum_faults.kill_minority,
        quorum_faults.stop_minority,
        quorum_faults.cut_minorities,
    ),
)

GROUP_CELLS = (*SENTINEL_CELLS, *CLUSTER_CELLS, *QUORUM_CELLS)
