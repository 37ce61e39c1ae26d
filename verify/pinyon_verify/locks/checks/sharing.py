"""Never more permits than the limit, and the server keeps the part of each reader that believes in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from ..attempts import NEVER, Attempt
from ..evidence import Evidence
from ..history import MILLISECOND
from ..names import POOL, process_of
from ..observer import Scan
from .exclusion import excuse_for, loss_of
from .finding import Finding

#: A part that ends within so many milliseconds may have ended.
CLOSE = 5
#: Why the earlier of two holders may be there when the later one comes, if it may.
Excuse = Callable[[Evidence, Attempt, Attempt], "str | None"]


def permits(evidence: Evidence) -> Iterator[Finding]:
    """Those inside at the same time, and those who believe in their permits, never have more than the limit."""
    for pool, holders in evidence.permitted():
        yield from _too_many(evidence, pool, holders, lambda attempt: attempt.section_end, excuse_for)
        yield from _too_many(evidence, pool, holders, lambda attempt: attempt.believed_end, loss_of)


def _too_many(
    evidence: Evidence, pool: str, holders: list[Attempt], end: Callable[[Attempt], int], excuse: Excuse
) -> Iterator[Finding]:
    inside: list[Attempt] = []
    for later in holders:
        inside = [earlier for earlier in inside if end(earlier) > (later.begun or 0)]
        count = sum(each.permits[pool] for each in inside) + later.permits[pool]
        if count > evidence.limit:
            excuses = {each.id: excuse(evidence, each, later) for each in inside}
            without = sum(each.permits[pool] for each in inside if excuses[each.id]) if inside else 0
            text = f"{pool}: {later.id} and {', '.join(excuses)} had {count} permits of {evidence.limit}"
            reasons = [reason for reason in excuses.values() if reason]
            yield Finding("permits", later.begun or 0, text, reasons[0] if count - without <= evidence.limit else None)
        if end(later) > (later.begun or 0):
            inside.append(later)


def permits_on_server(evidence: Evidence) -> Iterator[Finding]:
    """Whenever the server gives permits, no more than the limit are held."""
    parts: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
    for step in evidence.steps:
        if step.kind == "reset":
            parts.clear()
        elif step.kind == "left" and not step.attempt:
            parts[step.name].clear()
        elif step.kind == "left":
            parts[step.name].pop((step.attempt, step.part), None)
        elif step.kind == "joined" and step.name.startswith(POOL):
            held = parts[step.name]
            held[step.attempt, step.part] = step.number
            live = [part for part, until in held.items() if until > step.at // 1000 + CLOSE]
            if len(live) > evidence.limit:
                who = ", ".join(sorted({attempt for attempt, _ in live}))
                text = f"{step.name[1:]}: the server has given {len(live)} permits of {evidence.limit}, to {who}"
                yield Finding("permits", step.at * 1000, text)


def parts_kept(evidence: Evidence) -> Iterator[Finding]:
    """At every look, the server has as many parts of a name or a pool for each process as the process believes to have."""
    believers = sorted(
        (each for each in evidence.attempts if each.granted is not None and (each.read or each.permits)),
        key=lambda each: each.granted or 0,
    )
    starts = [each.granted or 0 for each in believers]
    longest = max((each.believed_end - (each.granted or 0) for each in believers), default=0)
    for scan in evidence.scans:
        first, past = bisect_left(starts, scan.asked - longest), bisect_right(starts, scan.asked - 1)
        believing = [each for each in believers[first:past] if _believes(each, scan)]
        if believing:
            yield from _missing(evidence, scan, believing)


def _believes(attempt: Attempt, scan: Scan) -> bool:
    """Whether it believes in its lock throughout the look, by what it knew before."""
    until = max((until for at, until in attempt.beliefs if at < scan.asked), default=0)
    # Once it has asked for other modes, it may have them before it knows.
    changing = NEVER if attempt.changing is None else attempt.changing
    return until > scan.answered + MILLISECOND and min(attempt.over, attempt.believed_end, changing) > scan.answered


def _missing(evidence: Evidence, scan: Scan, believing: list[Attempt]) -> Iterator[Finding]:
    kept = Counter((seen.name, process_of(seen.attempt)) for seen in scan.seen)
    believed: dict[tuple[str, int], list[tuple[Attempt, int]]] = defaultdict(list)
    for attempt in believing:
        for name in attempt.read & evidence.looked_at:
            believed[name, attempt.process].append((attempt, 1))
        for pool, count in attempt.permits.items():
            believed[f"{POOL}{pool}", attempt.process].append((attempt, count))
    for (name, process), attempts in believed.items():
        if sum(count for _, count in attempts) <= kept[name, process]:
            continue
        ids = ", ".join(attempt.id for attempt, _ in attempts)
        text = f"{name}: the server has {kept[name, process]} parts for {ids}"
        excuse = evidence.forgotten({name}, scan.answered, *(attempt for attempt, _ in attempts))
        yield Finding("belief", scan.asked, text, excuse)
