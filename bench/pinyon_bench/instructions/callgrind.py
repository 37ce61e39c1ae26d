"""Runs a program under callgrind and returns the number of instructions of each of its operations.

A program does each operation few times, then MORE times as many, and repeats this ROUNDS times. It asks for its
parent's id before, between and after: callgrind writes its counts at that call. After an operation, the program
prints a line with its name, a tab, and how many more operations the longer runs have.

The difference between the longer and the shorter runs excludes the fixed costs of a run. The smallest count of each
kind is used, since other threads, and replies that arrive in pieces, can only add to it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..servers import ServerError

MORE = 3
ROUNDS = 5
MARK = "getppid"
SECONDS = 600.0
TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)
#: Without these, memory layout and the order of hashed things would change the figures between runs, Ruby's heap would
#: grow within them, and the C library would return memory to the system and ask for it again, and join what was freed
#: to its neighbours at some allocations. The latter made `set_multi` of Perl 5 % dearer in some runs.
STEADY = {
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=65535",
    "MALLOC_TOP_PAD_": "4194304",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "PYTHONHASHSEED": "0",
    "RUBY_GC_HEAP_INIT_SLOTS": "1000000",
    "PERL_HASH_SEED": "0",
    "PERL_PERTURB_KEYS": "0",
}


class CountError(Exception):
    """The instructions of a program could not be counted, or are too many."""


def count(command: list[str]) -> dict[str, int]:
    """Returns the instructions of each operation of a program."""
    binary = shutil.which("valgrind")
    if binary is None:
        raise ServerError("valgrind is not installed: apt-get install valgrind")
    with tempfile.TemporaryDirectory(prefix="pinyon-instructions-") as folder:
        output = Path(folder) / "counted"
        callgrind = [binary, "--tool=callgrind", f"--dump-before={MARK}", f"--callgrind-out-file={output}"]
        try:
            done = subprocess.run(
                [*callgrind, *command], env={**os.environ, **STEADY}, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise CountError(f"{command[0]} did not end within {SECONDS:.0f} seconds under callgrind") from None
        if done.returncode:
            raise CountError(f"{' '.join(command)} failed under callgrind:\n{done.stderr}")
        parts = sorted(Path(folder).glob("counted.*"), key=lambda path: int(path.suffix[1:]))
        return figures(done.stdout, [total(part.read_text()) for part in parts])


def total(part: str) -> int:
    """Returns the count in one part of a run."""
    found = TOTAL.search(part)
    if found is None:
        raise CountError("callgrind wrote a file without totals")
    return int(found[1])


def figures(printed: str, totals: list[int]) -> dict[str, int]:
    """Returns the instructions of each operation, from what the program printed and from the counts at each mark."""
    lines = [line.split("\t") for line in printed.splitlines()]
    width = 2 * ROUNDS + 1
    if len(totals) != len(lines) * width:
        raise CountError(
            f"{len(lines)} operations were done, and {len(totals)} parts counted instead of {width} for each"
        )
    counted = {}
    for position, (name, operations) in enumerate(lines):
        runs = totals[position * width + 1 : (position + 1) * width]
        counted[name] = round((min(runs[1::2]) - min(runs[::2])) / int(operations))
    return counted
