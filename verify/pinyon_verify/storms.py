"""Callers that are interrupted while they acquire locks and leases: nothing may be left of what was interrupted."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import interrupted
from .locks.server import Server
from .programs import Missing, ruby
from .soak.servers import Memcached

#: How many interrupts come, also in a quick run.
ALL, QUICK = 100_000, 600
#: Seconds after which a process hangs.
LIMIT = 3600.0

#: The program of each model. Without one, it is Python's.
PROGRAMS = {
    "ruby-threads": "storms.rb",
    **dict.fromkeys(("python-signals", "python-exceptions", "asyncio", "gevent"), ""),
}


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    storms = verbs.add_parser("storms", help="interrupt callers while they acquire locks and leases; look what is left")
    interrupted.add_options(storms, PROGRAMS, f"interrupt only {QUICK} times: what the tests run")
    storms.add_argument("--way", action="append", default=[], help="a method of the program by which to acquire")
    storms.add_argument("--interrupts", type=int, help=f"how many interrupts come; default: {ALL}")
    storms.set_defaults(carry_out=interrupt)


def interrupt(options: argparse.Namespace) -> int:
    """Interrupt callers in each model; return 0 when nothing was left."""
    seed = interrupted.seed_of(options)
    number = options.interrupts or (QUICK if options.quick else ALL)
    models = options.model or PROGRAMS
    wrong = sum(interrupted.report(model, run(model, number, seed, options.way)) for model in models)
    return 1 if wrong else 0


def run(model: str, interrupts: int, seed: int, ways: list[str]) -> interrupted.Outcome:
    """Return what a model's program found on servers of its own."""
    try:
        command = ruby(PROGRAMS[model]) if PROGRAMS[model] else [sys.executable, "-m", "pinyon_verify.storming"]
    except Missing as missing:
        return [], {"skipped": str(missing)}
    with tempfile.TemporaryDirectory(prefix="ps-") as folder:
        redis, memcached = Server(Path(folder) / "r"), Memcached(Path(folder) / "m")
        try:
            redis.start()
            memcached.start()
            settings: dict[str, Any] = {"model": model, "redis": redis.socket, "memcached": memcached.address}
            settings |= {"interrupts": interrupts, "seed": seed, "ways": ways}
            return interrupted.run(command, settings, LIMIT)
        finally:
            memcached.kill()
            redis.kill()
