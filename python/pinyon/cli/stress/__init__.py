"""``pinyon locks stress``: let many processes compete for few locks, and check every critical section.

Each worker picks a random key, locks it, writes a random value beside it, sleeps, and reads the value back. A value
from a later lock is a mismatch and ends the run. A value from an earlier lock is not: its holder may have been delayed
until its lock had expired. An exception is a failure of the key, and after some failures the key is given up.

At the end the critical sections of all processes are compared: no two of a key may overlap, and tokens must increase.
Every run has its own namespace and deletes it at the end.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import sys
from typing import TYPE_CHECKING

import pinyon
from pinyon.cli.standing import keys_from
from pinyon.cli.stress.models import MODELS
from pinyon.cli.stress.plan import Broken, Complete, Mismatch, Plan
from pinyon.cli.stress.processes import Processes
from pinyon.cli.stress.progress import PATIENCE, Bar
from pinyon.cli.stress.results import Results, Verdict
from pinyon.cli.terminal import complain, say, text_of
from pinyon.cli.trust import tls_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


def stress(options: argparse.Namespace) -> int:
    """Run the stress test. Return 0 if it passed, 1 if it failed, 2 if it showed nothing."""
    if options.driver == "gevent" and importlib.util.find_spec("gevent") is None:
        complain("--driver gevent needs gevent; install it with: pip install gevent")
        return 2
    plan = Plan(
        url=options.url,
        namespace=options.namespace + b":stress:" + secrets.token_hex(8).encode(),
        driver=options.driver,
        handler=options.handler,
        forks=options.forks,
        concurrency=options.concurrency,
        keys=options.keys,
        tries=options.tries,
        sleep=options.sleep,
        seconds=options.seconds,
        timeout=options.timeout,
        tls=tls_of(options),
    )
    with pinyon.Locks(**plan.settings) as locks:
        # If the server refuses something, this reports it once, instead of each process.
        locks.status("key:0")
        workers = f"{plan.workers} {MODELS[plan.driver].workers} in {plan.forks} processes"
        say(f"{workers}, {plan.keys} keys on {locks.server}, {plan.sleep:g} s in each section")
    with _ended_by_signals():
        try:
            results = _results_of(plan)
        finally:
            _clean_up(plan)
    return _judge(plan, results)


def _results_of(plan: Plan) -> Results:
    results = Results()
    with Processes(plan) as processes, Bar(plan) as bar:
        for event in processes.events(PATIENCE):
            if event is not None:
                results.add(event)
            bar.show(results)
            if isinstance(event, Complete):
                bar.tell(f"[{event.process}] Complete; Ok: {event.ok}, Failures: {event.failures}")
            elif isinstance(event, Broken):
                bar.tell(f"[{event.process}] Broken: {event.why}")
            elif isinstance(event, Mismatch):
                bar.tell(f"[{event.process}] Value mismatch")
                break
    return results


def _judge(plan: Plan, results: Results) -> int:
    verdict = Verdict(plan, results)
    for what, found in verdict.rows:
        say(f"{what:10} {found}")
    for violation in verdict.violations:
        say(f"  {violation}", style="red")
    words, style = {0: ("PASS", "bold green"), 1: ("FAIL", "bold red"), 2: ("NOTHING SHOWN", "bold yellow")}[
        verdict.status
    ]
    say(words, style=style)
    return verdict.status


def _clean_up(plan: Plan) -> None:
    """Delete the run's namespace. A further Ctrl-C does not interrupt this."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pinyon.Locks(**plan.settings) as locks:
            keys = sorted(keys_from(locks, locks.prefix))
            for first in range(0, len(keys), 100):
                locks.execute("DEL", *keys[first : first + 100])
    except pinyon.Error as error:
        complain(f"keys of namespace {text_of(plan.namespace)} may be left: {error}")
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the process in order, so that it cleans up."""

    process = os.getpid()

    def end(number: int, _: object) -> None:
        if os.getpid() != process:
            # A forked process that has not come to its own handlers yet.
            os._exit(128 + number)
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
