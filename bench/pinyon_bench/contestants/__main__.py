"""Runs one Python contestant: `python -m pinyon_bench.contestants MODULE`, spoken to in JSON lines."""

from __future__ import annotations

import importlib
import sys

from ..calls import Adapter
from ..harness import serve
from ..protocol import encode


def main() -> int:
    """Serves the adapter named on the command line; says why when its library cannot be imported."""
    if len(sys.argv) != 2:
        print("usage: python -m pinyon_bench.contestants MODULE", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(f"{__package__}.{sys.argv[1]}")
    except ImportError as error:
        sys.stdin.buffer.readline()
        sys.stdout.buffer.write(encode({"ok": False, "reason": f"cannot be imported: {error}"}))
        sys.stdout.buffer.flush()
        return 1
    adapter: Adapter = module.ADAPTER
    serve(adapter)
    return 0


if __name__ == "__main__":
    sys.exit(main())
