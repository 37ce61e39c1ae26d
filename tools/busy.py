"""All tests in random order, beside processes that use up all cores: ``make test-busy RUNS=20``.

A test that luck decides fails here sooner or later. Each run prints its seed, and ``TEST_SEED`` repeats the first one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import time
from pathlib import Path

LOGS = Path("target") / "busy"


def main() -> int:
    """Run all tests as often as wanted; return 1 if any run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how often to run all tests")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what runs all tests, in the order of TEST_SEED")
    options = parser.parse_args()
    first = int(os.environ.get("TEST_SEED") or random.randrange(1_000_000))
    LOGS.mkdir(parents=True, exist_ok=True)
    for _ in range(os.cpu_count() or 1):
        multiprocessing.Process(target=spin, args=(os.getpid(),), daemon=True).start()
    failed = sum(not passes(first + run, options.command) for run in range(options.runs))
    print(f"{options.runs - failed} of {options.runs} runs passed")
    return min(failed, 1)


def spin(parent: int) -> None:
    """Use up a core for as long as the parent runs, however that ends."""
    while os.getppid() == parent:
        pass


def passes(seed: int, command: list[str]) -> bool:
    """Run the command in the order of a seed. Say how that went, and where a failure is told."""
    log = LOGS / f"{seed}.log"
    begun = time.monotonic()
    with log.open("w") as output:
        ended = subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TEST_SEED": str(seed)},
            check=False,
        )
    how = "passed" if ended.returncode == 0 else f"FAILED, see {log}"
    print(f"TEST_SEED={seed}: {how} ({time.monotonic() - begun:.0f} s)", flush=True)
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
