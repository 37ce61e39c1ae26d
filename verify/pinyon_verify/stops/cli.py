"""The options of ``ruby`` and ``perl``."""

from __future__ import annotations

import argparse
import random
from functools import partial
from typing import TYPE_CHECKING

from .languages import LANGUAGES, Language
from .run import run

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

#: How many of each kind are stopped in a quick run, and under valgrind.
QUICK, CHECKED = 200, 64


def add_verbs(verbs: SubParsers) -> None:
    for language in LANGUAGES:
        verb = verbs.add_parser(language.name, help=language.what)
        verb.add_argument(
            "--model", action="append", default=[], choices=language.stops, help="run only this; may be repeated"
        )
        verb.add_argument("--seed", type=int, help="random seed of all choices; each run prints its own")
        verb.add_argument("--quick", action="store_true", help=f"stop only {QUICK} of each kind, without valgrind")
        verb.set_defaults(carry_out=partial(stop_at_random, language))


def stop_at_random(language: Language, options: argparse.Namespace) -> int:
    """Stop callers in each model, then some under valgrind; return 0 when nothing was wrong."""
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    wrong = 0
    models = options.model or list(language.stops)
    for model in models:
        stops = QUICK if options.quick else language.stops[model]
        wrong += _report(model, *run(language, model, stops, seed))
    if options.quick:
        return 1 if wrong else 0
    for model in models:
        wrong += _report(f"{model}, memcheck", *run(language, model, CHECKED, seed, memcheck=True))
    return 1 if wrong else 0


def _report(model: str, found: list[str], facts: dict[str, object]) -> int:
    if "skipped" in facts:
        print(f"{model:<23} skipped: {facts['skipped']}", flush=True)
        return 0
    counts = facts.get("counts")
    done = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items())) if isinstance(counts, dict) else "-"
    print(f"{model:<23} {done}; {'WRONG' if found else 'ok'}", flush=True)
    for finding in found:
        print(f"  {finding}", flush=True)
    return len(found)
