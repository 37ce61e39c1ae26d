"""Counts a client's system calls per call in steady state.

strace counts while a contestant runs a row twice, the second time with more iterations: the difference is the
iterations' own, and what connecting, warming up and answering cost drops out. A run before both, without strace, leaves
nothing to load.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Union

from .contestant import Contestant, ContestantError, answered
from .coroutines.cells import prepare
from .coroutines.rows import PairsRow, pairs_rows
from .results import Gap, Syscalls
from .rows import Row, all_rows
from .servers import Server, ServerError
from .step_cells import server_names

CountedRow = Union[Row, PairsRow]

STEP_ROWS = ("get:36B", "set:36B", "multiget:100:1")
CONCURRENCY = 64
FEW, MORE = 200, 1200
PAIRS, PASSES = 10 * CONCURRENCY, 10
LEAST_COUNTED = 0.001
ATTACH_SECONDS = 10.0
SUMMARY_LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")


def syscall_rows() -> list[CountedRow]:
    """Returns the rows for which system calls are counted."""
    coroutines = [row for row in pairs_rows(short=True) if row.concurrency == CONCURRENCY]
    return [*(row for row in all_rows() if row.name in STEP_ROWS), *coroutines]


def count_syscalls(contestant: Contestant, servers: list[Server]) -> tuple[list[Syscalls], list[Gap]]:
    """Returns the counts for each row that the contestant can do, and the gaps for the others."""
    counted, gaps = [], []
    for row in syscall_rows():
        if not contestant.entry.takes_part(row):
            continue
        try:
            per_call = _per_call(contestant, row, servers)
            counted.append(Syscalls(contestant.entry.name, row.name, per_call))
        except ContestantError as error:
            gaps.append(Gap(row.name, contestant.entry.name, str(error), error.cannot))
    return counted, gaps


def _per_call(contestant: Contestant, row: CountedRow, servers: list[Server]) -> dict[str, float]:
    few_spec, more_spec, difference = _specs(row, servers)
    answered(contestant.ask({"do": "time", "row": few_spec}))
    few = _traced(contestant, few_spec)
    more = _traced(contestant, more_spec)
    counts = {name: (more[name] - few.get(name, 0)) / difference for name in more}
    return {name: count for name, count in sorted(counts.items()) if abs(count) >= LEAST_COUNTED}


def _specs(row: CountedRow, servers: list[Server]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Returns the row with few and with more calls, all else and the size of the request being equal; and how many more."""
    if isinstance(row, PairsRow):
        specs = [row.spec(servers[0].name, PAIRS, passes) for passes in (1, 1 + PASSES)]
        prepare(specs[0], servers[0])
        return {**specs[0]}, {**specs[1]}, PAIRS * PASSES
    few, more = (row.spec(server_names(row, servers), iterations) for iterations in (FEW, MORE))
    more["warmup"] = few["warmup"]
    return {**few}, {**more}, MORE - FEW


def _traced(contestant: Contestant, spec: dict[str, Any]) -> dict[str, int]:
    """Returns the system calls of one timed run."""
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary"
        tracer = _attach(contestant.pid, summary)
        try:
            reply = contestant.ask({"do": "time", "row": spec})
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(ATTACH_SECONDS)
        answered(reply)
        return _parse(summary.read_text())


def _attach(pid: int, summary: Path) -> subprocess.Popen[str]:
    binary = shutil.which("strace")
    if binary is None:
        raise ServerError("strace is not installed: apt-get install strace")
    command = [binary, "-c", "-f", "-o", str(summary), "-p", str(pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if "attached" not in said:
        tracer.wait(ATTACH_SECONDS)
        raise ServerError(f"strace cannot attach: {said.strip()}")
    return tracer


def _parse(summary: str) -> dict[str, int]:
    matches = (SUMMARY_LINE.match(line) for line in summary.splitlines())
    return {match[2]: int(match[1]) for match in matches if match and match[2] != "total"}
