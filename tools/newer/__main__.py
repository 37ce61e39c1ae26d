"""Tests on Debian's next releases, and a Ruby of theirs for the benchmark.

PYTHONPATH=tools python -m newer test [SUITE ...]
PYTHONPATH=tools python -m newer ruby
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time

from .building import build_ruby
from .folders import NEWER, CannotInstall
from .suites import LATEST, suites


def main() -> int:
    """Runs a command; returns the process's exit status."""
    parser = argparse.ArgumentParser(prog="newer", description=__doc__.splitlines()[0] if __doc__ else None)
    verbs = parser.add_subparsers(dest="verb", required=True)
    test = verbs.add_parser("test", help="run suites; without a name all of them")
    test.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(suites(1)))
    test.add_argument("--processes", type=int, default=4, help="of Python's tests; default: %(default)s")
    verbs.add_parser("ruby", help="print a program that starts Ruby with async 2 and Dalli 5, and finds Pinyon")
    options = parser.parse_args()
    try:
        return _test(options.suites, options.processes) if options.verb == "test" else _ruby()
    except CannotInstall as reason:
        print(f"newer: {reason}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"newer: {shlex.join(map(str, error.cmd))} ended with status {error.returncode}", file=sys.stderr)
    return 1


def _test(names: list[str], processes: int) -> int:
    known = suites(processes)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"newer: no suite is named {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    said = {}
    for name in names or known:
        print(f"newer: {name}: {known[name].about}", flush=True)
        began = time.monotonic()
        passed = known[name].run()
        said[name] = f"{'passed' if passed else 'FAILED'}  {time.monotonic() - began:5.0f} s  {known[name].about}"
    print(*(f"newer: {name:12} {words}" for name, words in said.items()), sep="\n")
    return 0 if all(words.startswith("passed") for words in said.values()) else 1


def _ruby() -> int:
    LATEST.install()
    starter = NEWER / "ruby"
    command = shlex.join([*LATEST.entering(build_ruby(LATEST)), "ruby"])
    starter.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    starter.chmod(0o755)
    print(starter)
    return 0


if __name__ == "__main__":
    sys.exit(main())
