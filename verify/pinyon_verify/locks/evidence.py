"""Everything known about one run, for the checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from .attempts import NEVER, Attempt, gather
from .history import SECOND, Line
from .journal import Journal
from .leaderships import Campaign, campaigns
from .names import POOL
from .observer import Scan
from .trace import Step

#: Faults that excuse violations: the server lost or deleted data, or its clock jumped. What a failover excuses follows
#: from the servers' journals.
LOSSES = ("restart", "flush", "delete", "evict", "clock")


@dataclass(frozen=True)
class Fault:
    """Something done to the world.

    ``kill`` and ``stop`` of a process; of the server ``pause``, ``restart``, ``failover`` (another one becomes the
    primary, without the last writes), ``flush`` (all its data), ``delete`` (the locks of some names), ``clock``, ``forget`` (its scripts), ``queue`` (its waiters or its counter); ``cut``
    of a connection.
    """

    kind: str
    at: int
    until: int
    process: int = 0
    names: frozenset[str] = frozenset()
    #: Of a failover: which server was replaced, and by which one.
    old: int = 0
    new: int = 0
    #: The processes that could not hear of it until then, when they could.
    deaf: frozenset[int] = frozenset()
    told: int = 0


@dataclass(frozen=True)
class Rated:
    """A rate that was asked for permits, and gave them all."""

    sent: int
    answered: int
    count: int
    limit: int
    #: In seconds.
    per: float
    burst: int
    process: int = 0


@dataclass(frozen=True)
class Bounds:
    """Time limits in nanoseconds, which slow machines must meet too."""

    #: A waiter with free names and no one ahead of it is granted within this time.
    grant: int = 5 * SECOND
    #: The duration of a lock without renewal.
    ttl: int = SECOND
    #: No attempt fails before so long where servers only refuse for a while, and none waits for longer where one of those in
    #: a deadlock is told. 0 elsewhere.
    refused: int = 0
    deadlocked: int = 0
    #: Whether one of two readers that wait to write the same name is refused.
    refuses_upgrades: bool = False


@dataclass
class Evidence:
    """One run. What was not recorded is None or empty."""

    attempts: list[Attempt] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    #: When a process got no time: from, until.
    stalls: list[tuple[int, int]] = field(default_factory=list)
    violations: list[tuple[int, str]] = field(default_factory=list)
    rated: list[Rated] = field(default_factory=list)
    #: Candidates for a leadership.
    campaigns: dict[str, Campaign] = field(default_factory=dict)
    #: The limit of each pool, and the names and pools that scans look at.
    limit: int = 0
    looked_at: frozenset[str] = frozenset()
    scans: list[Scan] = field(default_factory=list)
    steps: Sequence[Step] = ()
    #: Of each server of a group.
    journals: list[Journal] = field(default_factory=list)
    #: Nanoseconds from the clock of histories to that of the servers, if those are right.
    wall: int | None = None
    #: The keys that existed after all holders and waiters were gone.
    keys_left: list[str] = field(default_factory=list)
    channels_left: list[str] = field(default_factory=list)
    #: The names that are locked at the end by a server whose clock is behind the one that set the end of the lock.
    kept_by_clock: frozenset[str] = frozenset()
    #: The number of calls of each command, and of clients; for runs without faults and cancellations.
    calls: dict[str, int] | None = None
    clients: int = 0
    #: Whether waiters must be granted in the order of their tickets.
    ordered: bool = True
    bounds: Bounds = Bounds()

    def holders(self) -> Iterator[tuple[str, list[Attempt]]]:
        """Return for each name the attempts that entered their critical section, in order."""
        return self._begun_by(lambda attempt: attempt.names)

    def permitted(self) -> Iterator[tuple[str, list[Attempt]]]:
        """Return for each pool the attempts that entered their section with its permits, in order."""
        return self._begun_by(lambda attempt: attempt.permits)

    def visible(self, attempt: Attempt) -> frozenset[str]:
        """Return what a scan may see of the attempt."""
        all_of_it = attempt.names | {f"{POOL}{pool}" for pool in attempt.permits}
        return all_of_it & self.looked_at if self.looked_at else all_of_it

    def _begun_by(self, things: Callable[[Attempt], Iterable[str]]) -> Iterator[tuple[str, list[Attempt]]]:
        by_name = defaultdict(list)
        for attempt in sorted((each for each in self.attempts if each.begun is not None), key=_begun):
            for name in things(attempt):
                by_name[name].append(attempt)
        return iter(sorted(by_name.items()))

    def stopped(self, attempt: Attempt, since: int, until: int) -> bool:
        """Whether the attempt's process was stopped or dying between these moments. Dying takes time on a busy
        machine.
        """
        return any(
            fault.kind in ("stop", "kill")
            and fault.process == attempt.process
            and fault.at < until
            and since < fault.until
            for fault in self.faults
        )

    def lost(self, names: Set[str], since: int, until: int) -> bool:
        """Whether the server may have lost the holder of some of these names between these moments.

        A holder that loses one of its names releases the others.
        """
        losses = (fault for fault in self.faults if fault.kind in LOSSES and since <= fault.until and fault.at < until)
        return any(not fault.names or not fault.names.isdisjoint(names) for fault in losses)

    @property
    def failovers(self) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind == "failover"]

    def unknown(self, attempt: Attempt, failover: Fault) -> bool:
        """Whether the new primary never heard of this lock, or of its last renewal, on the old one."""
        later = (other.at for other in self.failovers if other.at > failover.at)
        if attempt.granted is None or attempt.granted > min(later, default=NEVER):
            return False
        old, new = self._kept(failover.old, attempt), self._kept(failover.new, attempt)
        return old > new and (not new or attempt.granted < failover.told)

    def parted(self, first: Attempt, second: Attempt) -> bool:
        """Whether a failover excuses that both are held: one is of the new primary, which does not know the other."""
        for failover in self.failovers:
            known, unknown = (first, second) if self.unknown(second, failover) else (second, first)
            if self.unknown(unknown, failover) and self._kept(failover.new, known):
                if not self.unknown(known, failover):
                    return True
        return False

    def unproved(self, attempt: Attempt) -> bool:
        """Whether some new primary did not know it, or its last renewal."""
        return any(self.unknown(attempt, failover) for failover in self.failovers)

    def forgotten(self, names: Set[str], until: int, *attempts: Attempt) -> str | None:
        """Why the server may not know these attempts at that moment, or not that they have these names; or None."""
        if any(self.unproved(attempt) for attempt in attempts):
            return f"the new primary did not know {'it' if len(attempts) == 1 else 'one of them'}"
        since = min(attempt.granted or 0 for attempt in attempts)
        return "the server lost its state" if self.lost(names, since, until) else None

    def kept_until(self, attempt: Attempt) -> int:
        """Until when any server kept this lock, in milliseconds of the servers' clocks."""
        return max(self._kept(index, attempt) for index in range(len(self.journals)))

    def _kept(self, server: int, attempt: Attempt) -> int:
        return self.journals[server].kept.get((attempt.process, attempt.token or 0), 0)

    def stalled(self, since: int, until: int) -> int:
        """Return the longest time between these moments for which processes got no processor time."""
        return sum(max(0, min(until, end) - max(since, begin)) for begin, end in self.stalls)


def _begun(attempt: Attempt) -> int:
    return attempt.begun or 0


def weigh(lines: list[Line]) -> Evidence:
    """Return the evidence that the processes recorded."""
    faults = [_fault(line) for line in lines if line.event == "fault"]
    kills = {fault.process: fault.until for fault in faults if fault.kind == "kill"}
    attempts = gather(lines, kills)
    return Evidence(
        attempts=attempts,
        faults=faults,
        stalls=_joined(_stalls(lines, faults)),
        violations=[(line.at, line.facts["text"]) for line in lines if line.event == "violation"],
        campaigns=campaigns(lines, attempts),
        rated=[_rated(line) for line in lines if line.event == "rated" and line.facts["allowed"]],
    )


def _rated(line: Line) -> Rated:
    facts = line.facts
    return Rated(facts["sent"], line.at, facts["count"], facts["limit"], facts["per"], facts["burst"], line.process)


def _fault(line: Line) -> Fault:
    facts = {"until": line.at, **line.facts}
    facts |= {name: frozenset(facts.get(name, ())) for name in ("names", "deaf")}
    return Fault(at=line.at, **facts)


def _stalls(lines: Iterable[Line], faults: list[Fault]) -> Iterator[tuple[int, int]]:
    """Return when processes got no processor time, except those stopped on purpose."""
    away = [fault for fault in faults if fault.kind in ("stop", "pause", "restart", "failover")]
    for line in lines:
        if line.event != "stall":
            continue
        since, until = line.at, line.facts["until"]
        if not any(fault.process in (0, line.process) and fault.at < until and since < fault.until for fault in away):
            yield since, until


def _joined(stalls: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the merged times in which some process got no processor time."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(stalls):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined
