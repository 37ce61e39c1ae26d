"""Checks 3 and 4: tokens increase, and a register that enforces them never accepts an older one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pinyon.cli.stress.checks import disordered

from ..attempts import Attempt, Write
from ..evidence import Evidence
from ..journal import Change, Journal
from ..trace import Step
from .finding import Finding


def increase(evidence: Evidence) -> Iterator[Finding]:
    """For each name, tokens increase in the order of grants, both the clients' and the server's.

    A reader's token is at least that of the last writer.
    """
    for name, holders in evidence.holders():
        believing = [attempt for attempt in holders if attempt.believed > (attempt.begun or 0)]
        for newest, attempt in _disordered(name, believing):
            text = f"{name}: {attempt.id} has token {attempt.token} after {newest.id} had {newest.token}"
            lost = evidence.lost(attempt.names, attempt.granted or 0, attempt.begun or 0)
            excuse = "granted before, and the server lost its state" if lost else None
            if _is_of_the_old(evidence, attempt, newest):
                excuse = "granted by a primary that had been replaced"
            yield Finding("tokens", attempt.begun or 0, text, excuse)
    yield from _increase_on_server(evidence)
    for index, journal in enumerate(evidence.journals):
        yield from _increase_in(evidence, index, journal)


def _disordered(name: str, holders: list[Attempt]) -> Iterator[tuple[Attempt, Attempt]]:
    """Return each holder with too low a token, behind the earlier one with the highest token that it should know.

    Who writes the name knows all before; who reads it, those who wrote it.
    """
    newest: Attempt | None = None
    written: Attempt | None = None
    for later in holders:
        reads = name in later.read
        known, token = (written, (later.token or 0) + 1) if reads else (newest, later.token or 0)
        if known is not None and token <= (known.token or 0) and not _is_kept(known, later):
            yield known, later
            continue
        if newest is None or (later.token or 0) >= (newest.token or 0):
            newest = later
        if not reads:
            written = later


def _is_kept(known: Attempt, later: Attempt) -> bool:
    """Whether it goes on with the token that it has: it reads other names now, and writes this one still."""
    return later.former == known.id and later.token == known.token


def seen(evidence: Evidence) -> Iterator[Finding]:
    """Who asks to read a name, or for permits, gets no lower token than those who had it before, or a part of it."""
    for name, attempts in evidence.holders():
        yield from _seen(evidence, name, attempts, [each for each in attempts if name in each.read])
    for pool, attempts in evidence.permitted():
        yield from _seen(evidence, pool, attempts, attempts)


def _seen(evidence: Evidence, name: str, attempts: list[Attempt], asking: list[Attempt]) -> Iterator[Finding]:
    told = sorted(attempts, key=lambda attempt: attempt.granted or 0)
    newest, at = None, 0
    # Who changes the modes of its lock asked earlier.
    for attempt in sorted((each for each in asking if not each.former), key=lambda each: each.invoked):
        while at < len(told) and (told[at].granted or 0) < attempt.invoked:
            if newest is None or (told[at].token or 0) > (newest.token or 0):
                newest = told[at]
            at += 1
        if newest is None or (attempt.token or 0) + (not attempt.is_written) > (newest.token or 0):
            continue
        text = f"{name}: {attempt.id} has token {attempt.token}, and asked when {newest.id} had {newest.token}"
        lost = evidence.lost(attempt.names, newest.granted or 0, attempt.granted or 0)
        excuse = "the server lost its state" if lost else None
        if evidence.failovers and (_is_of_the_old(evidence, attempt, newest) or evidence.unproved(newest)):
            excuse = "one of them was granted by a primary that had been replaced"
        yield Finding("tokens", attempt.granted or 0, text, excuse)


def _is_of_the_old(evidence: Evidence, attempt: Attempt, newest: Attempt) -> bool:
    return any(
        evidence.unknown(attempt, failover) and not evidence.unknown(newest, failover)
        for failover in evidence.failovers
    )


def _increase_in(evidence: Evidence, index: int, journal: Journal) -> Iterator[Finding]:
    """On each server, tokens increase. A replica may have received more than the one that is promoted."""
    newest: dict[str, Change] = {}
    for change in journal.changes:
        if not change.attempt:
            continue
        before = newest.get(change.name, change)
        if change.token >= before.token:
            newest[change.name] = change
        if change.token < before.token or (change.token == before.token and change.attempt != before.attempt):
            text = f"{change.name}: server {index} has {change.attempt} with token {change.token} after"
            back = any(fault.kind == "clock" for fault in evidence.faults)
            excuse = "its clock was set back" if back else None
            if change.is_taken_over and evidence.failovers:
                excuse = "it began to follow a primary that had received less"
            yield Finding("tokens", 0, f"{text} {before.attempt} with {before.token}", excuse)


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
    """A register accepts no older token after a newer one, and refuses no holder.

    No reader sees what a later writer than its token's wrote.
    """
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
                yield Finding(
                    "register", write.answered, text, evidence.forgotten(attempt.names, write.answered, attempt)
                )
    yield from _looks(evidence)


def _looks(evidence: Evidence) -> Iterator[Finding]:
    for attempt in evidence.attempts:
        for look in attempt.looks:
            if look.newest > (attempt.token or 0) and look.answered < attempt.believed:
                text = f"{look.name}: {attempt.id} reads with token {attempt.token} what was written with {look.newest}"
                yield Finding(
                    "register", look.answered, text, evidence.forgotten(attempt.names, look.answered, attempt)
                )
