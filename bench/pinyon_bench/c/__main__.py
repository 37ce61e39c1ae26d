"""Runs one C contestant, spoken to in JSON lines: `python -m pinyon_bench.c CLIENT`. CLIENT is a file in `bench/c`."""

from __future__ import annotations

import sys

from ..harness import answer_requests, refuse
from .harness import Harness, Library


def main() -> int:
    """Answers requests until the input ends, or only the first one if the client cannot be loaded."""
    try:
        library = Library(sys.argv[1])
    except OSError as error:
        refuse(f"cannot be loaded: {error}")
        return 1
    answer_requests(Harness(library).do)
    return 0


if __name__ == "__main__":
    sys.exit(main())
