"""Checks 3 and 4: tokens increase, and a register that enforces them never accepts an older one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pinyon.cli.stress.checks import disordered

from ..attempts import Attempt, Write
from ..evidence import Evidence
from ..trace import Step
from .finding import Finding


def increase(evidence: Evidence) -> Iterator[Finding]:
    """For each name, tokens increase in the order of grants, both the clients' and the server's."""
    for name, holders in evidence.holders():
        believing = [attempt for attempt in holders if attempt.believed > (attempt.begun or 0)]
        for newest, attempt in disordered(believing, lambda each: each.token or 0):
            text = f"{name}: {attempt.id} has token {attempt.token} after {newest.id} had {newest.token}"
            lost = evidence.lost(attempt.names, attempt.granted or 0, attempt.begun or 0)
            excuse = "granted before, and the server lost its state" if lost else None
            yield Finding("tokens", attempt.begun or 0, text, excuse)
    yield from _increase_on_server(evidence)


def _increase_on_server(evidence: Evidence) -> Iterator[Finding]:
    granted: dict[str, list[Step]] = defaultdict(list)
    for step in evidence.steps:
        if step.kind == "granted":
            granted[step.name].append(step)
    for name, grants in granted.items():
        for newest, step in disordered(grants, lambda each: each.number):
            text = (
                f"{name}: the server gave {step.attempt} token {step.number} after {newest.attempt} had {newest.number}"
            )
            yield Finding("tokens", step.at * 1000, text)


def register(evidence: Evidence) -> Iterator[Finding]:
    """A register accepts no older token after a newer one, and refuses no holder."""
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
