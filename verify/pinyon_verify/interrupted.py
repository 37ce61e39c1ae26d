"""Programs whose callers are interrupted: they are told by JSON what to do, and tell so what they have found. And the options
that all programs which stop and interrupt have.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

#: What was wrong, and the facts, or why it was ``skipped``.
Outcome = tuple[list[str], dict[str, Any]]


def add_options(verb: argparse.ArgumentParser, models: Iterable[str], quick: str) -> None:
    verb.add_argument("--model", action="append", default=[], choices=[*models], help="run only this; may be repeated")
    verb.add_argument("--seed", type=int, help="random seed of all choices; each run prints its own")
    verb.add_argument("--quick", action="store_true", help=quick)


def seed_of(options: argparse.Namespace) -> int:
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    return int(seed)


def run(
    command: list[str],
    settings: dict[str, Any],
    limit: float,
    *,
    checked: Mapping[str, str] | None = None,
    invalid: int = -1,
) -> Outcome:
    """Run a program; it hangs after `limit` seconds. `checked`: its environment under memcheck, which ends it with the status
    `invalid`.
    """
    try:
        words = [*command, json.dumps(settings)]
        environment = {**os.environ, **(checked or {})}
        ended = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return [f"hang: the process has not ended after {limit:g} seconds"], {}
    except FileNotFoundError as missing:
        return [f"error: {missing.filename} is not installed"], {}
    if ended.returncode != 0:
        kind = "memcheck" if ended.returncode == invalid else "error"
        return [f"{kind}: the process ended with status {ended.returncode}: {ended.stderr[-3000:]}"], {}
    facts: dict[str, Any] = json.loads(ended.stdout)
    return [*facts["findings"]], facts


def report(model: str, outcome: Outcome) -> int:
    """Print what was done and found in a model. Return how much was wrong."""
    found, facts = outcome
    if "skipped" in facts:
        print(f"{model:<23} skipped: {facts['skipped']}", flush=True)
        return 0
    done = ", ".join(f"{count:,} {kind}" for kind, count in sorted(facts.get("counts", {}).items()))
    print(f"{model:<23} {done or '-'}; {'WRONG' if found else 'ok'}", flush=True)
    for finding in found:
        print(f"  {finding}", flush=True)
    return len(found)
