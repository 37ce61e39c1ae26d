"""Runs one Python contestant, spoken to in JSON lines: `python -m pinyon_bench.contestants MODULE[.ADAPTER] [MODEL]`."""

from __future__ import annotations

import importlib
import sys

from ..coroutines.models import make_model
from ..coroutines.work import PairsHarness
from ..harness import refuse, serve
from ..names import BLOCKING, MODELS


def main() -> int:
    """Serves the adapter and concurrency model named on the command line; says why when one cannot be imported."""
    names = sys.argv[1:]
    model_name = names[1] if len(names) == 2 else BLOCKING
    if len(names) not in (1, 2) or model_name not in MODELS:
        print(f"usage: python -m pinyon_bench.contestants MODULE[.ADAPTER] [{'|'.join(MODELS)}]", file=sys.stderr)
        return 2
    module, _, attribute = names[0].partition(".")
    try:
        model = make_model(model_name)
        adapter = getattr(importlib.import_module(f"{__package__}.{module}"), attribute or "ADAPTER")
    except ImportError as error:
        refuse(f"cannot be imported: {error}")
        return 1
    serve(adapter, PairsHarness(adapter, model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
