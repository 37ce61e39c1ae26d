"""The outcome of each attempt to acquire a lock, merged from its lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .history import Line

#: For an attempt that had not ended when the history did.
NEVER = 1 << 62
#: Events of which only the moment matters.
MOMENTS = {
    **{"begin": "begun", "end": "ended", "lost": "lost", "release": "release_sent"},
    **{"cancel": "given_up", "failed": "given_up"},
}


@dataclass(frozen=True)
class Write:
    """One write to the register that enforces tokens."""

    name: str
    token: int
    sent: int
    answered: int
    accepted: bool
    order: int


@dataclass
class Attempt:
    """One attempt; events that did not happen are None."""

    id: str
    process: int
    names: frozenset[str]
    invoked: int
    granted: int | None = None
    token: int | None = None
    begun: int | None = None
    ended: int | None = None
    lost: int | None = None
    release_sent: int | None = None
    released: int | None = None
    kept: bool | None = None
    #: When it was cancelled, timed out or failed.
    given_up: int | None = None
    timed_out: bool = False
    #: Why it failed, though nobody was to cancel it.
    failed: str = ""
    #: When its process was killed, unless it was over by then.
    killed: int | None = None
    #: What its client recorded: at the first moment, it considered the lock held until the second.
    beliefs: list[tuple[int, int]] = field(default_factory=list)
    #: When it should have continued within its section, but got no time.
    late: list[int] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)

    @property
    def believed(self) -> int:
        """Until when its client believed that it held the lock, as far as it recorded."""
        return max((until for _, until in self.beliefs), default=0)

    @property
    def section_end(self) -> int:
        """When its critical section had certainly ended."""
        return min(moment for moment in (self.ended, self.killed, NEVER) if moment is not None)

    @property
    def believed_end(self) -> int:
        """When its critical section ended, or its client knew that it might have lost the lock."""
        return min(self.section_end, self.believed, NEVER if self.lost is None else self.lost)

    @property
    def over(self) -> int:
        """When it stopped blocking others, apart from what the server did not know yet."""
        moments = (self.given_up, self.release_sent, self.killed, self.lost)
        return min((moment for moment in moments if moment is not None), default=NEVER)


def gather(lines: Iterable[Line], kills: dict[int, int]) -> list[Attempt]:
    """Return the attempts in order; ``kills``: when each process was killed."""
    attempts: dict[str, Attempt] = {}
    for line in lines:
        if line.event == "invoke":
            names = frozenset(line.facts["names"])
            attempts[line.attempt] = Attempt(line.attempt, line.process, names, line.at)
        elif line.attempt in attempts:
            _follow(attempts[line.attempt], line)
    for attempt in attempts.values():
        killed = kills.get(attempt.process)
        if killed is not None and attempt.released is None and attempt.given_up is None:
            attempt.killed = killed
    return sorted(attempts.values(), key=lambda attempt: attempt.invoked)


def _follow(attempt: Attempt, line: Line) -> None:
    facts = line.facts
    if line.event == "granted":
        attempt.granted, attempt.token = line.at, facts["token"]
        attempt.beliefs.append((line.at, facts["until"]))
    elif line.event == "believes":
        attempt.beliefs.append((line.at, facts["until"]))
    elif line.event in MOMENTS:
        setattr(attempt, MOMENTS[line.event], line.at)
        attempt.timed_out = line.event == "cancel"
        if line.event == "failed" and not facts["cancelled"]:
            attempt.failed = facts["error"]
    elif line.event == "late":
        attempt.late.append(line.at)
    elif line.event == "released":
        attempt.released, attempt.kept = line.at, facts["kept"]
    elif line.event == "write":
        write = Write(facts["name"], facts["token"], facts["sent"], line.at, facts["accepted"], facts["order"])
        attempt.writes.append(write)
