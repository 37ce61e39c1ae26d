"""The options of ``ruby`` and ``perl``."""

from __future__ import annotations

import argparse
from functools import partial

from .. import interrupted
from .languages import LANGUAGES, Language
from .run import run

#: How many of each kind are stopped in a quick run, and under valgrind.
QUICK, CHECKED = 200, 64


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for language in LANGUAGES:
        verb = verbs.add_parser(language.name, help=language.what)
        interrupted.add_options(verb, language.stops, f"stop only {QUICK} of each kind, without valgrind")
        verb.set_defaults(carry_out=partial(stop_at_random, language))


def stop_at_random(language: Language, options: argparse.Namespace) -> int:
    """Stop callers in each model, then some under valgrind; return 0 when nothing was wrong."""
    seed, wrong = interrupted.seed_of(options), 0
    models = options.model or list(language.stops)
    for model in models:
        stops = QUICK if options.quick else language.stops[model]
        wrong += interrupted.report(model, run(language, model, stops, seed))
    for model in [] if options.quick else models:
        wrong += interrupted.report(f"{model}, memcheck", run(language, model, CHECKED, seed, memcheck=True))
    return 1 if wrong else 0
