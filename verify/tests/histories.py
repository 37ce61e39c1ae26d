"""Invented histories, with times in milliseconds and letters as names."""

from __future__ import annotations

from pinyon_verify.locks.attempts import Attempt, Write
from pinyon_verify.locks.evidence import Bounds, Evidence, Fault
from pinyon_verify.locks.history import MILLISECOND as MS
from pinyon_verify.locks.observer import Scan, Seen
from pinyon_verify.locks.trace import Step


def held(id: str, names: str, token: int, begun: int, ended: int, believed: int = 1000, process: int = 1) -> Attempt:
    """An attempt that was granted when it began, and released when it ended."""
    return Attempt(
        id,
        process,
        frozenset(names),
        invoked=begun * MS,
        granted=begun * MS,
        token=token,
        begun=begun * MS,
        ended=ended * MS,
        release_sent=ended * MS,
        released=ended * MS,
        kept=True,
        beliefs=[(begun * MS, believed * MS)],
    )


def waited(attempt: Attempt, invoked: int) -> Attempt:
    attempt.invoked = invoked * MS
    return attempt


def believed(attempt: Attempt, until: int) -> Attempt:
    attempt.beliefs = [(attempt.granted or 0, until * MS)]
    return attempt


def wrote(attempt: Attempt, name: str, order: int, accepted: bool, at: int, answered: int | None = None) -> Attempt:
    over = at if answered is None else answered
    attempt.writes.append(Write(name, attempt.token or 0, at * MS, over * MS, accepted, order))
    return attempt


def fault(kind: str, at: int, until: int, process: int = 0, names: str = "") -> Fault:
    return Fault(kind, at * MS, until * MS, process, frozenset(names))


def scan(at: int, *seen: tuple[str, str, int, int]) -> Scan:
    return Scan(at * MS, at * MS, tuple(Seen(*each) for each in seen))


def step(at: int, kind: str, attempt: str, number: int = 0, name: str = "", part: int = 0) -> Step:
    return Step(at * 1000, kind, attempt, number, name, part)


def evidence(*attempts: Attempt, **more: object) -> Evidence:
    found = Evidence(attempts=sorted(attempts, key=lambda attempt: attempt.invoked), bounds=Bounds(500 * MS, 400 * MS))
    for name, value in more.items():
        setattr(found, name, value)
    return found
