"""A lock that is handed over: adopted once, and nobody had it between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..attempts import Attempt
from ..evidence import Evidence
from .finding import Finding


def once(evidence: Evidence) -> Iterator[Finding]:
    """Each ticket is adopted at most once."""
    adopters: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in evidence.attempts:
        if attempt.source and attempt.granted is not None:
            adopters[attempt.source].append(attempt)
    for source, adopted in adopters.items():
        first, *others = sorted(adopted, key=lambda attempt: attempt.granted or 0)
        for other in others:
            text = f"{other.id} adopted the lock of {source}, which {first.id} had adopted"
            yield Finding("hand-over", other.granted or 0, text, _excuse(evidence, first, other))


def nobody_between(evidence: Evidence) -> Iterator[Finding]:
    """Nobody is granted a name between who hands it over and who adopts it."""
    givers = {attempt.id: attempt for attempt in evidence.attempts if attempt.handed is not None}
    pairs = [(givers[each.source], each) for each in evidence.attempts if each.token and each.source in givers]
    holders = dict(evidence.holders())
    for giver, adopter in pairs:
        if (adopter.token or 0) <= (giver.token or 0):
            text = f"{adopter.id} adopted the lock of {giver.id}, and its token is not higher"
            yield Finding("hand-over", adopter.granted or 0, text, _excuse(evidence, giver, adopter))
        for name in sorted(giver.names):
            for other in holders.get(name, ()):
                if other is not giver and (giver.token or 0) <= (other.token or 0) < (adopter.token or 0):
                    text = f"{name}: {other.id} had it between {giver.id} and {adopter.id}, who adopted it"
                    yield Finding("hand-over", other.granted or 0, text, _excuse(evidence, giver, other, adopter))


def _excuse(evidence: Evidence, *attempts: Attempt) -> str | None:
    return evidence.forgotten(attempts[0].names, max(attempt.granted or 0 for attempt in attempts), *attempts)
