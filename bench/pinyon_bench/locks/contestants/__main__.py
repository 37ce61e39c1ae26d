"""Runs one lock library, spoken to in JSON lines: `python -m pinyon_bench.locks.contestants MODULE[.ADAPTER] MODEL`."""

from __future__ import annotations

import sys
from typing import Any

from pinyon.cli.stress.models import MODELS, Model

from ...harness import run_contestant
from ..harness import LocksHarness


def serve(adapter: Any, model: Model) -> Any:
    """Returns what does a request, and what ends it."""
    harness = LocksHarness(adapter, model)
    return harness.do, harness.close


if __name__ == "__main__":
    sys.exit(run_contestant(__package__, MODELS, serve))
