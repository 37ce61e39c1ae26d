"""Checks 3 and 4: tokens increase, and a register that enforces them never takes an older one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..attempts import Attempt, Write
from ..evidence import Evidence
from .finding import Finding


def increase(evidence: Evidence) -> Iterator[Finding]:
    """For each name, tokens increase in the order of grants: the clients' and the server's."""
    for name, holders in evidence.holders():
        newest: Attempt | None = None
        for attempt in holders:
            if attempt.believed <= (attempt.begun or 0):
                continue
            if newest is not None and (attempt.token or 0) <= (newest.token or 0):
                text = f"{name}: {attempt.id} has token {attempt.token} after {newest.id} had {newest.token}"
                lost = evidence.lost(attempt.names, attempt.granted or 0, attempt.begun or 0)
                excuse = "granted before, and the server lost its state" if lost else None
                yield Finding("tokens", attempt.begun or 0, text, excuse)
            else:
                newest = attempt
    yield from _increase_on_server(evidence)


def _increase_on_server(evidence: Evidence) -> Iterator[Finding]:
    newest: dict[str, tuple[int, str]] = {}
    for step in evidence.steps:
        if step.kind != "granted":
            continue
        token, attempt = newest.get(step.name, (0, ""))
        if step.number <= token:
            text = f"{step.name}: the server gave {step.attempt} token {step.number} after {attempt} had {token}"
            yield Finding("tokens", step.at * 1000, text)
        newest[step.name] = max((token, attempt), (step.number, step.attempt))


def register(evidence: Evidence) -> Iterator[Finding]:
    """A register takes no older token after a newer one, and refuses nobody who holds the lock."""
    by_name: dict[str, list[tuple[Write, Attempt]]] = defaultdict(list)
    for attempt in evidence.attempts:
        for write in attempt.writes:
            by_name[write.name].append((write, attempt))
    for name, writes in sorted(by_name.items()):
        newest = 0
        for write, attempt in sorted(writes, key=lambda pair: pair[0].order):
            if write.accepted and write.token < newest:
                text = f"{name}: the register took token {write.token} of {attempt.id} after {newest}"
                yield Finding("register", write.answered, text)
            elif write.accepted:
                newest = write.token
            elif write.answered < attempt.believed:
                text = f"{name}: {attempt.id} was refused with token {write.token} while it believed to hold the lock"
                lost = evidence.lost(attempt.names, attempt.granted or 0, write.answered)
                yield Finding("register", write.answered, text, "the server lost its state" if lost else None)
