"""Measures whether a client's memory stays flat over a million operations and over failing connections."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from . import playing
from .contestant import Contestant
from .results import Memory
from .servers import Server, free_port
from .step_rows import StepRow, step_rows

WARM_ITERATIONS = 10_000
OPERATIONS = 1_000_000
FAILURES = 10_000
REPLY_SECONDS = 600.0


def measure_memory(contestant: Contestant, servers: list[Server]) -> list[Memory]:
    """Returns resident memory before and after, in kilobytes, each after a warm-up of the same kind."""
    return [
        *(_operations(contestant, servers, row) for row in step_rows() if "memory" in row.also),
        _failures(contestant, fresh=True),
        _failures(contestant, fresh=False),
    ]


def _operations(contestant: Contestant, servers: list[Server], row: StepRow) -> Memory:
    names = [servers[0].name]
    playing.time(contestant.ask, row.spec(names, WARM_ITERATIONS))
    before = resident_kilobytes(contestant.pid)
    playing.time(partial(contestant.ask, seconds=REPLY_SECONDS), row.spec(names, OPERATIONS))
    after = resident_kilobytes(contestant.pid)
    return Memory(contestant.entry.name, f"{OPERATIONS:,} times {row.name}", before, after)


def _failures(contestant: Contestant, fresh: bool) -> Memory:
    request = {"do": "fail", "servers": [f"127.0.0.1:{free_port()}"], "fresh": fresh}
    contestant.ask({**request, "attempts": FAILURES // 100})
    before = resident_kilobytes(contestant.pid)
    reply = contestant.ask({**request, "attempts": FAILURES}, REPLY_SECONDS)
    after = resident_kilobytes(contestant.pid)
    what = f"{FAILURES:,} failing connects" if fresh else f"{FAILURES:,} gets, no server"
    note = f"{reply['failures']:,} raised: {reply['error']}" if reply["ok"] else reply["reason"]
    return Memory(contestant.entry.name, what, before, after, note)


def resident_kilobytes(pid: int) -> int:
    """Returns a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(f"process {pid} has no resident memory")
