"""Checks 1 and 2: critical sections of one name never overlap, except those of readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pinyon.cli.stress.checks import overlapping

from ..attempts import Attempt
from ..evidence import Evidence
from ..history import MILLISECOND
from .finding import Finding


def sections(evidence: Evidence) -> Iterator[Finding]:
    """Critical sections do not overlap, unless the earlier holder could not leave or the server lost one of them."""
    for name, earlier, later in _overlaps(evidence, lambda attempt: attempt.section_end):
        text = f"{name}: {earlier.id} was inside until {_after(earlier.section_end, later)} after {later.id} began"
        yield Finding("exclusion", later.begun or 0, text, excuse_for(evidence, earlier, later))


def beliefs(evidence: Evidence) -> Iterator[Finding]:
    """Cut off where their holders' belief ends, they never overlap, unless the server lost its state."""
    for name, earlier, later in _overlaps(evidence, lambda attempt: attempt.believed_end):
        text = f"{name}: {earlier.id} believed for {_after(earlier.believed_end, later)} after {later.id} began"
        yield Finding("belief", later.begun or 0, text, loss_of(evidence, earlier, later))


def least(evidence: Evidence) -> Iterator[Finding]:
    """Nobody enters before the least time of a lock is over that its holder has released earlier."""
    for name, holders in evidence.holders():
        for index, earlier in enumerate(holders):
            if not (earlier.at_least and earlier.kept):
                continue
            # It began to count when its holder knew, which was after it had asked.
            stays = earlier.beliefs[0][1] - evidence.bounds.ttl + earlier.at_least
            for later in holders[index + 1 :]:
                if _begun(later) >= stays:
                    break
                text = f"{name}: {later.id} began {_after(stays, later)} before the least time of {earlier.id} was over"
                yield Finding("at least", _begun(later), text, loss_of(evidence, earlier, later))


def _overlaps(evidence: Evidence, end: Callable[[Attempt], int]) -> Iterator[tuple[str, Attempt, Attempt]]:
    for name, holders in evidence.holders():
        inside = [each for each in holders if end(each) > _begun(each)]
        for earlier, later in overlapping(inside, _begun, end):
            if earlier.conflicts_at(name, later):
                yield name, earlier, later


def _begun(attempt: Attempt) -> int:
    return attempt.begun or 0


def excuse_for(evidence: Evidence, earlier: Attempt, later: Attempt) -> str | None:
    """Why the earlier holder may be inside when the later one begins, or None."""
    granted, begun = earlier.granted or 0, later.begun or 0
    if evidence.stopped(earlier, granted, begun):
        return "the earlier holder was stopped"
    if loss := loss_of(evidence, earlier, later):
        return loss
    if earlier.believed > begun:
        return None
    if any(late <= begun for late in earlier.late) or evidence.stalled(granted, begun):
        return "the earlier holder got no time to leave"
    if any(write.sent < earlier.believed and begun < write.answered for write in earlier.writes):
        return "the earlier holder waited for the register"
    return None


def loss_of(evidence: Evidence, earlier: Attempt, later: Attempt) -> str | None:
    """Why the earlier holder may believe in its lock when the later one begins, or None."""
    if evidence.lost(earlier.names, earlier.granted or 0, later.begun or 0):
        return "the server lost its state"
    if evidence.parted(earlier, later):
        return "the new primary did not know one of them"
    return None


def _after(end: int, later: Attempt) -> str:
    return f"{(end - (later.begun or 0)) / MILLISECOND:.1f} ms"
