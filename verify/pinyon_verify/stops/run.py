"""Runs a program that stops its own callers on real servers, and judges what it has found."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .. import interrupted
from ..programs import Missing
from ..soak.servers import Memcached
from .languages import Language

#: By how many bytes a warm process may grow: the allocator keeps what it has had.
GROWTH = 64 * 1024 * 1024
#: Callers that leave something behind leave it each time. A few values are kept for later, whatever the number of callers.
LEFT_OF_EACH = 4
#: Seconds after which a process hangs.
LIMIT = 600.0
#: The exit status of valgrind when it has found something.
INVALID = 99

MEMCHECK = ("valgrind", "--quiet", "--num-callers=25", f"--error-exitcode={INVALID}")


def run(language: Language, model: str, stops: int, seed: int, *, memcheck: bool = False) -> interrupted.Outcome:
    """Stop so many callers of each kind. Return what was wrong, and the facts, or why it was ``skipped``."""
    try:
        command = language.command(model)
    except Missing as missing:
        return [], {"skipped": str(missing)}
    if memcheck:
        command = [*MEMCHECK, *(f"--suppressions={path}" for path in language.suppressions(model)), *command]
    with tempfile.TemporaryDirectory(prefix="ps-") as folder, ExitStack() as stack:
        servers = [Memcached(), Memcached(Path(folder) / "socket")]
        for server in servers:
            stack.callback(server.kill)
            server.start()
        addresses = [server.address for server in servers]
        settings = {"model": model, "servers": addresses, "stops": stops, "seed": seed}
        checked = language.checked if memcheck else None
        wrong, facts = interrupted.run(command, settings, LIMIT, checked=checked, invalid=INVALID)
    return (judge(facts, look_at_memory=not memcheck), facts) if facts else (wrong, facts)


def judge(facts: dict[str, Any], *, look_at_memory: bool = True) -> list[str]:
    """Return wrong values, and the descriptors, memory and values of the language that the process leaked."""
    found = [f"value: {finding}" for finding in facts["findings"]]
    if not facts["counts"].get("right"):
        found.append("work: no value was read")
    before, after = facts["before"], facts["after"]
    if after["descriptors"] > before["descriptors"]:
        found.append(f"descriptors: {before['descriptors']} before, {after['descriptors']} after")
    growth = after["memory"] - before["memory"]
    if look_at_memory and growth > GROWTH:
        found.append(f"memory: grew by {growth >> 20} MiB")
    leaked = facts.get("leaked")
    if leaked and leaked["values"] > leaked["stops"] / LEFT_OF_EACH:
        found.append(f"leak: {leaked['values']} values of the language are left by {leaked['stops']} stops")
    return found
