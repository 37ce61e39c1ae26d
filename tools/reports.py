#!/usr/bin/env python3
"""Prints what sanitizers reported in the files of a folder: errors, and leaks of Pinyon's own code. Fails if it did.

Perl and Ruby free little when they end, so most leaks are theirs. A list of suppressions cannot tell these apart: each
frame of Pinyon has frames of the interpreter below it. So a leak counts if, above the first frame of an interpreter,
there is a frame of Pinyon's library.

A forked child does not have its parent's threads. What such a thread owned can never be freed there, and nothing refers
to it: the thread's stack did. So in the report of a forked child, what the core's threads were started with does not
count, nor what they had allocated, nor what is reachable from that alone. The parent has these threads, and its own
report counts all of it. tools/forked.c has children write to files of that name.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# The sources of C by their whole path, of Perl and Rust from a folder of the checkout on; or the library alone.
OURS = re.compile(
    r" (src|xs)/\w+\.(c|xs):\d+"
    r"|[ /](capi|perl|ruby/native|net|cache|locks|proto)/\S+\.(rs|c|xs):\d+|/(Pinyon|native|libpinyon)\.so\b"
)
INTERPRETER = re.compile(r"\(/(usr/)?(lib|bin)/\S*(perl|ruby)")
# Rust starts no other thread in these libraries. Names may be mangled.
OF_A_THREAD = re.compile(r"own_thread(::|5)start|thread(::Thread::new::|\S*3new12)thread_start")
PINYON, THREADS, OTHERS = "Pinyon", "threads of parents", "interpreters and servers"
ERROR = re.compile(r"^(==\d+==ERROR: (?!LeakSanitizer: detected)|.*: runtime error: )", re.MULTILINE)


def leaks(report: str) -> Iterator[str]:
    """Yields each leak of a report, with its stack."""
    for part in re.split(r"\n\n+", report):
        if re.match(r"(Direct|Indirect) leak of ", part):
            yield part


def owners(report: str, is_forked: bool) -> Iterator[tuple[str, str]]:
    """Yields whose each leak is (Pinyon's, an interpreter's, a thread's that a forked child lacks), and the leak."""
    all_leaks = list(leaks(report))
    of_threads = [leak for leak in all_leaks if is_forked and OF_A_THREAD.search(leak) and is_ours(leak)]
    has_thread = any(leak.startswith("Direct") for leak in of_threads)
    for leak in all_leaks:
        if not is_ours(leak):
            yield OTHERS, leak
        elif leak in of_threads or (has_thread and leak.startswith("Indirect")):
            yield THREADS, leak
        else:
            yield PINYON, leak


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
    paths = sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_file())
    counted: Counter[str] = Counter()
    errors = 0
    for path in paths:
        report = path.read_text(errors="replace")
        if ERROR.search(report):
            errors += 1
            print(f"{path.name}:\n{report}\n")
        for whose, leak in owners(report, ".forked." in path.name):
            counted[whose] += 1
            if whose == PINYON:
                print(f"{path.name}: {leak}\n")
    others = f"{counted[OTHERS]} of {OTHERS}, {counted[THREADS]} of {THREADS}"
    ours = f"{errors} errors, {counted[PINYON]} leaks of {PINYON}"
    print(f"reports: {ours} (not counted: {others}), in {len(paths)} reports")
    sys.exit(errors > 0 or counted[PINYON] > 0)


if __name__ == "__main__":
    main()
