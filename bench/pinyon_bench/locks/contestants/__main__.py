"""Runs one lock library, spoken to in JSON lines: `python -m pinyon_bench.locks.contestants MODULE[.ADAPTER] MODEL`."""

from __future__ import annotations

import importlib
import sys

from pinyon.cli.stress.models import MODELS

from ...harness import answer_requests, refuse
from ..harness import LocksHarness
from ..rows import LOCK_MODELS


def main() -> int:
    """Serves the adapter and concurrency model named on the command line; says why when one cannot be imported."""
    names = sys.argv[1:]
    if len(names) != 2 or names[1] not in LOCK_MODELS:
        print(f"usage: python -m {__package__} MODULE[.ADAPTER] {'|'.join(LOCK_MODELS)}", file=sys.stderr)
        return 2
    module, _, attribute = names[0].partition(".")
    try:
        model = MODELS[names[1]]()
        adapter = getattr(importlib.import_module(f"{__package__}.{module}"), attribute or "ADAPTER")
    except ImportError as error:
        refuse(f"cannot be imported: {error}")
        return 1
    harness = LocksHarness(adapter, model)
    answer_requests(harness.do)
    harness.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
