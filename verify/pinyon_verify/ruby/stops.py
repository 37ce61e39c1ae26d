"""Runs ``verify/ruby/stops.rb`` on real servers, and judges what it has found."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..soak.servers import Memcached

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "verify" / "ruby" / "stops.rb"
SUPPRESSIONS, FIBERS_SUPPRESSIONS = PROGRAM.with_name("memcheck.supp"), PROGRAM.with_name("memcheck-fibers.supp")
MODELS = ("threads", "plain", "async", "eventmachine")
#: By how many bytes a warm process may grow: the allocator keeps what it has had.
GROWTH = 64 * 1024 * 1024
#: Seconds after which a process hangs.
LIMIT = 600.0
#: The exit status of valgrind when it has found something.
INVALID = 99

#: memcheck takes a jump of the stack pointer by less than 2 MB for a call or a return. So fibers get stacks that are
#: farther apart, in bytes.
STACKS = {"RUBY_FIBER_VM_STACK_SIZE": str(4 << 20), "RUBY_FIBER_MACHINE_STACK_SIZE": str(8 << 20)}
MEMCHECK = (
    "valgrind",
    "--quiet",
    "--num-callers=25",
    f"--error-exitcode={INVALID}",
    f"--suppressions={SUPPRESSIONS}",
)


def run(model: str, stops: int, seed: int, *, memcheck: bool = False) -> tuple[list[str], dict[str, Any]]:
    """Stop so many callers of each kind. Return what was wrong, and the facts."""
    with tempfile.TemporaryDirectory(prefix="ps-") as folder, ExitStack() as stack:
        servers = [Memcached(), Memcached(Path(folder) / "socket")]
        for server in servers:
            stack.callback(server.kill)
            server.start()
        addresses = [server.address for server in servers]
        settings = {"model": model, "servers": addresses, "stops": stops, "seed": seed}
        under = _memcheck(model) if memcheck else []
        command = [*under, "ruby", "-I", str(ROOT / "ruby" / "lib"), str(PROGRAM)]
        try:
            ended = subprocess.run(
                [*command, json.dumps(settings)],
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
                env={**os.environ, **(STACKS if memcheck else {})},
            )
        except subprocess.TimeoutExpired:
            return [f"hang: the process has not ended after {LIMIT:g} seconds"], {}
        except FileNotFoundError as missing:
            return [f"error: {missing.filename} is not installed"], {}
    if ended.returncode != 0:
        kind = "memcheck" if ended.returncode == INVALID else "error"
        return [f"{kind}: the process ended with status {ended.returncode}: {ended.stderr[-3000:]}"], {}
    facts = json.loads(ended.stdout)
    return judge(facts, look_at_memory=not memcheck), facts


def _memcheck(model: str) -> list[str]:
    """Return the command that looks for invalid accesses of a program in this model."""
    return [*MEMCHECK, *([] if model == "threads" else [f"--suppressions={FIBERS_SUPPRESSIONS}"])]


def judge(facts: dict[str, Any], *, look_at_memory: bool = True) -> list[str]:
    """Return wrong values, and the descriptors and memory that the process leaked."""
    found = [f"value: {finding}" for finding in facts["findings"]]
    if not facts["counts"].get("right"):
        found.append("work: no value was read")
    before, after = facts["before"], facts["after"]
    if after["descriptors"] > before["descriptors"]:
        found.append(f"descriptors: {before['descriptors']} before, {after['descriptors']} after")
    growth = after["memory"] - before["memory"]
    if look_at_memory and growth > GROWTH:
        found.append(f"memory: grew by {growth >> 20} MiB")
    return found
