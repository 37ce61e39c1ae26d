#!/usr/bin/env python3
"""Prints the leaks of Pinyon's own code from LeakSanitizer's reports in the given files. Fails if there is one.

Perl and Ruby free little when they end, so most of what is reported is theirs. A list of suppressions cannot tell these
apart: each frame of Pinyon has frames of the interpreter below it. So a leak counts if, above the first frame of an
interpreter, there is a frame of Pinyon's library.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# The sources of C by their whole path, of Perl and Rust from a folder of the checkout on; or the library alone.
OURS = re.compile(
    r" (src|xs)/\w+\.(c|xs):\d+"
    r"|[ /](capi|perl|ruby/native|net|cache|locks|proto)/\S+\.(rs|c|xs):\d+|/(Pinyon|native|libpinyon)\.so\b"
)
INTERPRETER = re.compile(r"\(/(usr/)?(lib|bin)/\S*(perl|ruby)")


def leaks(report: str) -> Iterator[str]:
    """Yields each leak of a report, with its stack."""
    for part in re.split(r"\n\n+", report):
        if re.match(r"(Direct|Indirect) leak of ", part):
            yield part


def is_ours(leak: str) -> bool:
    """Tells whether Pinyon allocated it, rather than an interpreter that Pinyon called."""
    for frame in leak.splitlines()[1:]:
        if INTERPRETER.search(frame):
            return False
        if OURS.search(frame):
            return True
    return False


def main() -> None:
    """Reads the reports and prints what is ours."""
    paths = [Path(name) for name in sys.argv[1:]]
    found = [leak for path in paths if path.exists() for leak in leaks(path.read_text(errors="replace"))]
    ours = [leak for leak in found if is_ours(leak)]
    for leak in ours:
        print(leak, end="\n\n")
    print(
        f"leaks: {len(ours)} of Pinyon, {len(found) - len(ours)} of interpreters and servers, in {len(paths)} reports"
    )
    sys.exit(bool(ours))


if __name__ == "__main__":
    main()
