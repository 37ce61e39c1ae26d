"""Callers that are interrupted while they acquire locks and leases: nothing may be left of what was interrupted."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .locks.server import Server
from .programs import Missing, ruby
from .soak.servers import Memcached

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

#: How many interrupts come, also in a quick run.
ALL, QUICK = 100_000, 600
#: Seconds after which a process hangs.
LIMIT = 3600.0

#: The program of each model. Without one, it is Python's.
PROGRAMS = {
    "ruby-threads": "storms.rb",
    "python-signals": "",
    "python-exceptions": "",
    "asyncio": "",
    "gevent": "",
}


def add_verb(verbs: SubParsers) -> None:
    storms = verbs.add_parser("storms", help="interrupt callers while they acquire locks and leases; look what is left")
    storms.add_argument("--model", action="append", default=[], choices=PROGRAMS, help="run only this; may be repeated")
    storms.add_argument("--way", action="append", default=[], help="a method of the program by which to acquire")
    storms.add_argument("--interrupts", type=int, help=f"how many interrupts come; default: {ALL}")
    storms.add_argument("--seed", type=int, help="random seed of all choices; each run prints its own")
    storms.add_argument("--quick", action="store_true", help=f"interrupt only {QUICK} times: what the tests run")
    storms.set_defaults(carry_out=interrupt)


def interrupt(options: argparse.Namespace) -> int:
    """Interrupt callers in each model; return 0 when nothing was left."""
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    number = options.interrupts or (QUICK if options.quick else ALL)
    wrong = 0
    for model in options.model or PROGRAMS:
        try:
            facts = run(model, number, seed, options.way)
        except Missing as missing:
            print(f"{model:<17} skipped: {missing}", flush=True)
            continue
        done = ", ".join(f"{count:,} {kind}" for kind, count in sorted(facts["counts"].items()))
        print(f"{model:<17} {done}; {'WRONG' if facts['findings'] else 'ok'}", flush=True)
        for finding in facts["findings"]:
            print(f"  {finding}", flush=True)
        wrong += len(facts["findings"])
    return 1 if wrong else 0


def run(model: str, interrupts: int, seed: int, ways: list[str]) -> dict[str, Any]:
    """Return what a model's program found on servers of its own: ``findings`` and ``counts``. Raises ``Missing``."""
    command = ruby(PROGRAMS[model]) if PROGRAMS[model] else [sys.executable, "-m", "pinyon_verify.storming"]
    with tempfile.TemporaryDirectory(prefix="ps-") as folder:
        redis, memcached = Server(Path(folder) / "r"), Memcached(Path(folder) / "m")
        try:
            redis.start()
            memcached.start()
            settings: dict[str, Any] = {"model": model, "redis": redis.socket, "memcached": memcached.address}
            settings |= {"interrupts": interrupts, "seed": seed, "ways": ways}
            ended = subprocess.run(
                [*command, json.dumps(settings)], capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return {"findings": [f"hang: the process has not ended after {LIMIT:g} seconds"], "counts": {}}
        finally:
            memcached.kill()
            redis.kill()
    if ended.returncode != 0:
        return {"findings": [f"the process ended with status {ended.returncode}: {ended.stderr[-3000:]}"], "counts": {}}
    facts: dict[str, Any] = json.loads(ended.stdout)
    return facts
