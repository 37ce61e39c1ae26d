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

from .contestant import Contestant, ContestantError
from .results import Gap, Syscalls
from .rounds import server_names
from .rows import Row, all_rows
from .servers import Server, ServerError

SYSCALL_ROWS = [row for row in all_rows() if row.name in ("get:36B", "set:36B", "multiget:100:1")]
FEW, MORE = 200, 1200
LEAST_SHOWN = 0.01
ATTACH_SECONDS = 10.0
SUMMARY_LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")


def count_syscalls(contestant: Contestant, servers: list[Server]) -> tuple[list[Syscalls], list[Gap]]:
    """Returns the counts for each row that the contestant can do, and the gaps for the others."""
    counted, gaps = [], []
    for row in SYSCALL_ROWS:
        if row.group not in contestant.entry.groups:
            continue
        try:
            per_call = _per_call(contestant, row, servers)
            counted.append(Syscalls(contestant.entry.name, row.name, per_call))
        except ContestantError as error:
            gaps.append(Gap(row.name, contestant.entry.name, str(error), False))
    return counted, gaps


def _per_call(contestant: Contestant, row: Row, servers: list[Server]) -> dict[str, float]:
    contestant.ask({"do": "time", "row": row.spec(server_names(row, servers), FEW)})
    few = _traced(contestant, row, servers, FEW)
    more = _traced(contestant, row, servers, MORE)
    counts = {name: (more[name] - few.get(name, 0)) / (MORE - FEW) for name in more}
    return {name: count for name, count in sorted(counts.items()) if abs(count) >= LEAST_SHOWN}


def _traced(contestant: Contestant, row: Row, servers: list[Server], iterations: int) -> dict[str, int]:
    """Returns the system calls of one timed run, warm-up held equal."""
    spec = row.spec(server_names(row, servers), iterations)
    spec["warmup"] = FEW
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary"
        tracer = _attach(contestant.pid, summary)
        try:
            reply = contestant.ask({"do": "time", "row": spec})
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(ATTACH_SECONDS)
        if not reply["ok"]:
            raise ContestantError(reply["reason"])
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
