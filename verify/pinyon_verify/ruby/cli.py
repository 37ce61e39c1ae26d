"""The options of ``ruby``."""

from __future__ import annotations

import argparse
import random
from typing import TYPE_CHECKING

from .stops import MODELS, run

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

#: How many threads are stopped; how many fibers are stopped, and how many time out.
THREADS, FIBERS = 10_000, 2_000
#: The same in a quick run, and under valgrind.
QUICK, CHECKED = 200, 64


def add_verb(verbs: SubParsers) -> None:
    ruby = verbs.add_parser("ruby", help="stop Ruby's threads and fibers at random; look for invalid memory accesses")
    ruby.add_argument("--model", action="append", default=[], choices=MODELS, help="run only this; may be repeated")
    ruby.add_argument("--seed", type=int, help="random seed of all choices; each run prints its own")
    ruby.add_argument("--quick", action="store_true", help=f"stop only {QUICK} of each kind, without valgrind")
    ruby.set_defaults(carry_out=stop_at_random)


def stop_at_random(options: argparse.Namespace) -> int:
    """Stop callers in each model, then some under valgrind; return 0 when nothing was wrong."""
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    wrong = 0
    for model in options.model or MODELS:
        stops = QUICK if options.quick else THREADS if model == "threads" else FIBERS
        wrong += _report(model, *run(model, stops, seed))
    if options.quick:
        return 1 if wrong else 0
    for model in options.model or MODELS:
        wrong += _report(f"{model}, memcheck", *run(model, CHECKED, seed, memcheck=True))
    return 1 if wrong else 0


def _report(model: str, found: list[str], facts: dict[str, object]) -> int:
    counts = facts.get("counts")
    done = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items())) if isinstance(counts, dict) else "-"
    print(f"{model:<23} {done}; {'WRONG' if found else 'ok'}", flush=True)
    for finding in found:
        print(f"  {finding}", flush=True)
    return len(found)
