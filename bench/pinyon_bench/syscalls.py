"""Counts a client's system calls per call in steady state.

strace counts while a contestant runs a row twice, the second time with more iterations. The difference excludes
connecting, warming up and answering. An earlier run without strace loads everything that is needed.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import playing
from .catalogue import all_rows
from .contestant import Contestant, ContestantError
from .coroutines.cells import prepare
from .coroutines.rows import PairsRow
from .declaration import Row
from .results import Gap, Syscalls
from .servers import Server, ServerError
from .step_cells import server_names
from .step_rows import StepRow

FEW, MORE = 200, 1200
#: Pairs per coroutine, and how many times the longer run repeats them.
PAIRS_EACH, PASSES = 10, 10
LEAST_COUNTED = 0.001
ATTACH_SECONDS = 10.0
SUMMARY_LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")


def syscall_rows() -> list[Row]:
    """Returns the rows for which system calls are counted."""
    return [row for row in all_rows(short=True) if "system calls" in row.also]


def count_syscalls(contestant: Contestant, servers: list[Server]) -> tuple[list[Syscalls], list[Gap]]:
    """Returns the counts for each row that the contestant supports, and the gaps for the others."""
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


def _per_call(contestant: Contestant, row: Row, servers: list[Server]) -> dict[str, float]:
    few_spec, more_spec, difference = _specs(row, servers)
    playing.time(contestant.ask, few_spec)
    few = _traced(contestant, few_spec)
    more = _traced(contestant, more_spec)
    counts = {name: (more[name] - few.get(name, 0)) / difference for name in more}
    return {name: count for name, count in sorted(counts.items()) if abs(count) >= LEAST_COUNTED}


def _specs(row: Row, servers: list[Server]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Returns the row with few and with more calls, otherwise equal including the size of the request; and how many
    more.
    """
    if isinstance(row, PairsRow):
        pairs = PAIRS_EACH * row.concurrency
        specs = [row.spec(servers[0].name, pairs, passes) for passes in (1, 1 + PASSES)]
        prepare(specs[0], servers[0])
        return {**specs[0]}, {**specs[1]}, pairs * PASSES
    assert isinstance(row, StepRow)
    few, more = (row.spec(server_names(row, servers), iterations) for iterations in (FEW, MORE))
    more["warmup"] = few["warmup"]
    return {**few}, {**more}, MORE - FEW


def _traced(contestant: Contestant, spec: dict[str, Any]) -> dict[str, int]:
    """Returns the system calls of one timed run."""
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary"
        tracer = _attach(contestant.pid, summary)
        try:
            playing.time(contestant.ask, spec)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(ATTACH_SECONDS)
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
