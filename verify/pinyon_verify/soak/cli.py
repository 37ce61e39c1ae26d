"""The options of ``soak``."""

from __future__ import annotations

import argparse
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from .. import interrupted
from .models import MODELS, RUBY
from .run import Plan, Result, console, details, run, table
from .sabotage import SABOTAGES

#: Every concurrency model.
ALL = (*MODELS, *RUBY)
#: Seconds of work for each model in a quick run, and under each sabotage.
QUICK_SECONDS, SABOTAGE_SECONDS = 3.0, 2.0
#: How often a sabotage that was missed is tried again, for twice as long: on a busy machine little is done in a second.
SABOTAGE_RETRIES = 4


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    soak = verbs.add_parser("soak", help="check caches on real servers that are killed, paused and silenced")
    soak.add_argument(
        "--minutes", type=float, default=10.0, help="how long all concurrency models take together; default: 10"
    )
    soak.add_argument("--seconds", type=float, help="how long each model works; overrides --minutes")
    soak.add_argument("--workers", type=int, default=64, help="how many workers run at once; default: 64")
    interrupted.add_options(soak, ALL, f"take only {QUICK_SECONDS:g} seconds for each model")
    soak.add_argument(
        "--sabotage", action="store_true", help="use broken clients on purpose and see whether the checks find it"
    )
    soak.set_defaults(carry_out=soak_or_sabotage)


def soak_or_sabotage(options: argparse.Namespace) -> int:
    """Run the soak or its sabotages; return 0 when nothing was wrong."""
    models = options.model or list(ALL)
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    if options.sabotage:
        return _sabotage(models, seed, options.seconds or SABOTAGE_SECONDS, options.workers)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else options.minutes * 60 / len(models))
    plan = Plan(models, seed, seconds, options.workers)
    shown = console()
    shown.print(f"seed {seed}, {plan.workers} workers, {seconds:g} seconds for each of {', '.join(models)}")
    results = []
    for model in models:
        results.append(run(plan, model))
        shown.print("\n".join(details(results[-1], plan)), markup=False)
    shown.print(table(results))
    return 1 if any(result.findings for result in results) else 0


def _sabotage(models: list[str], seed: int, seconds: float, workers: int) -> int:
    """Apply each sabotage in turn; return 0 when every one was found."""
    missed = []
    with ThreadPoolExecutor() as pool:
        for number, name in enumerate(SABOTAGES):
            plan = Plan(models, seed, seconds, workers, sabotage=name)
            # Both languages at once, as it takes long otherwise.
            for result in pool.map(partial(_run_sabotaged, plan), _one_of_each_language(models, number)):
                found = _is_found(plan, result)
                if not found:
                    missed.append(f"{name} in {result.model}")
                verdict = "found" if found else "missed"
                print(f"{name:<14} {result.model:<17} {verdict}; in all: {dict(result.kinds)}", flush=True)
    print(f"missed: {', '.join(missed)}" if missed else "everything was found")
    return 1 if missed else 0


def _run_sabotaged(plan: Plan, model: str) -> Result:
    """Run a sabotaged client until it is found or has worked long enough."""
    for retry in range(SABOTAGE_RETRIES + 1):
        result = run(replace(plan, seconds=plan.seconds * 2**retry), model)
        if _is_found(plan, result):
            break
    return result


def _is_found(plan: Plan, result: Result) -> bool:
    return SABOTAGES[plan.sabotage].found_by in result.kinds


def _one_of_each_language(models: list[str], number: int) -> list[str]:
    """Return the next model of Python's and the next of Ruby's."""
    languages = ([model for model in models if model not in RUBY], [model for model in models if model in RUBY])
    return [language[number % len(language)] for language in languages if language]
