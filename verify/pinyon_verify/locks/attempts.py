"""The outcome of each attempt to acquire a lock, merged from its lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .history import SECOND, Line

#: For an attempt that had not ended when the history did.
NEVER = 1 << 62
#: Events of which only the moment matters.
MOMENTS = {
    **{"begin": "begun", "end": "ended", "lost": "lost", "release": "release_sent", "resigned": "resigned"},
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


@dataclass(frozen=True)
class Look:
    """What a reader found in the register: the token that was written last."""

    name: str
    newest: int
    sent: int
    answered: int


@dataclass
class Attempt:
    """One attempt; events that did not happen are None."""

    id: str
    process: int
    #: All its names, to write and to read.
    names: frozenset[str]
    invoked: int
    read: frozenset[str] = frozenset()
    #: How many permits of which pools.
    permits: Mapping[str, int] = field(default_factory=dict)
    #: For how long its names stay locked at least, in nanoseconds.
    at_least: int = 0
    #: The attempt whose lock it adopts.
    source: str = ""
    #: The attempt whose lock it is in other modes, if it is an upgrade or a downgrade.
    former: str = ""
    granted: int | None = None
    token: int | None = None
    begun: int | None = None
    ended: int | None = None
    lost: int | None = None
    release_sent: int | None = None
    released: int | None = None
    kept: bool | None = None
    #: When it began to hand the lock over, and until when the lock lasts if nobody adopts it.
    handed: int | None = None
    handed_until: int | None = None
    #: When it first asked for other modes, and when it asked for those that it was given.
    changing: int | None = None
    changed: int | None = None
    #: When a leader had given its leadership up.
    resigned: int | None = None
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
    looks: list[Look] = field(default_factory=list)

    @property
    def is_written(self) -> bool:
        """Whether it writes anything: then its token is its own."""
        return bool(self.names - self.read)

    @property
    def is_continued(self) -> bool:
        """Whether it has a lock that was held before: it never was in the queue of those who hold nothing."""
        return bool(self.source or self.former)

    def conflicts_at(self, name: str, other: Attempt) -> bool:
        """Whether only one of the two may have the name, which both want: not both read it."""
        return not (name in self.read and name in other.read)

    def conflicts(self, other: Attempt) -> bool:
        """Whether they cannot hold one of their names together."""
        return not self.names.isdisjoint(other.names) and any(
            self.conflicts_at(name, other) for name in self.names & other.names
        )

    def competes(self, other: Attempt) -> bool:
        """Whether they want permits of the same pool."""
        return not self.permits.keys().isdisjoint(other.permits.keys())

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
        moments = (self.given_up, self._released, self.killed, self.lost, self.handed_until, self.changed)
        return min((moment for moment in moments if moment is not None), default=NEVER)

    @property
    def _released(self) -> int | None:
        """When its names were free after its release."""
        if self.release_sent is None or self.granted is None:
            return self.release_sent
        return max(self.release_sent, self.granted + self.at_least if self.at_least else 0)


def gather(lines: Iterable[Line], kills: dict[int, int]) -> list[Attempt]:
    """Return the attempts in order; ``kills``: when each process was killed."""
    attempts: dict[str, Attempt] = {}
    for line in lines:
        if line.event == "invoke":
            attempts[line.attempt] = _invoked(line)
        elif line.attempt in attempts:
            _follow(attempts[line.attempt], line)
    for attempt in attempts.values():
        ends = (attempt.released, attempt.given_up, attempt.handed, attempt.changed)
        if all(end is None for end in ends):
            attempt.killed = kills.get(attempt.process)
    return sorted(attempts.values(), key=lambda attempt: attempt.invoked)


def _invoked(line: Line) -> Attempt:
    facts = line.facts
    return Attempt(
        line.attempt,
        line.process,
        frozenset(facts["names"]),
        line.at,
        frozenset(facts.get("read", ())),
        facts.get("permits", {}),
        int(facts.get("at_least", 0) * SECOND),
        facts.get("source", ""),
        facts.get("former", ""),
    )


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
    elif line.event == "handed":
        attempt.handed, attempt.handed_until = facts["sent"], facts["until"]
    elif line.event == "changing":
        attempt.changing = line.at if attempt.changing is None else attempt.changing
    elif line.event == "changed":
        attempt.changed = facts["sent"]
    elif line.event == "read":
        attempt.looks.append(Look(facts["name"], facts["newest"], facts["sent"], line.at))
    elif line.event == "write":
        write = Write(facts["name"], facts["token"], facts["sent"], line.at, facts["accepted"], facts["order"])
        attempt.writes.append(write)
