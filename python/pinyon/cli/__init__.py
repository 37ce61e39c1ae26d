"""The command ``pinyon``: checks servers, shows statistics, and inspects, releases and stress-tests locks."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from pinyon.cli.arguments import parse
from pinyon.errors import ConnectError, Error

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Exit statuses besides 0: the answer is no; it could not be determined; the command was interrupted.
NO, TROUBLE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

_REMEDY = "Set the server with --url or REDIS_URL; if it speaks TLS, set the authorities to trust with --ca."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default the process's own. Return the exit status."""
    options = parse(arguments)
    # Events are not printed: an error that they lead to is.
    logging.getLogger("pinyon").addHandler(logging.NullHandler())
    try:
        status: int = options.verb(options)
        sys.stdout.flush()
    except ConnectError as error:
        return _trouble(f"{error}\n{_REMEDY}")
    except Error as error:
        return _trouble(str(error))
    except KeyboardInterrupt:
        print("pinyon: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes again when it exits, and would report an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return status


def _trouble(message: str) -> int:
    print(f"pinyon: {message}", file=sys.stderr)
    return TROUBLE
