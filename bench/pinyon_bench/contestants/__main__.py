"""Runs one Python contestant, spoken to in JSON lines: `python -m pinyon_bench.contestants MODULE[.ADAPTER] [MODEL]`."""

from __future__ import annotations

import sys
from typing import Any

from pinyon.cli.stress.models import Model

from ..coroutines.work import MODELS, PairsHarness
from ..harness import do_steps, run_contestant


def serve(adapter: Any, model: Model) -> Any:
    """Returns what does a request, and what ends it; requests for rows of pairs are for another harness."""
    pairs = PairsHarness(adapter, model)

    def do(request: dict[str, Any]) -> dict[str, Any]:
        return pairs.do(request) if "pairs" in request.get("row", ()) else do_steps(adapter, request)

    return do, pairs.close


if __name__ == "__main__":
    sys.exit(run_contestant(__package__, MODELS, serve))
