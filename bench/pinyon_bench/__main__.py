"""The command line: `python -m pinyon_bench COMMAND`."""

from __future__ import annotations

import signal
import sys

from . import verbs
from .cli import parse
from .instructions.callgrind import CountError
from .placement import PlacementError
from .results import ResultError
from .servers import ServerError


def main() -> int:
    """Runs a command; returns the process's exit status."""
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, _terminate)
    try:
        getattr(verbs, options.verb)(options)
    except (CountError, PlacementError, ResultError, ServerError) as error:
        print(f"pinyon_bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("pinyon_bench: interrupted", file=sys.stderr)
        return 130
    return 0


def _terminate(number: int, _: object) -> None:
    """Ends as on an interrupt, so that the servers and contestants end too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
