"""What an attempt wants: names to write, names to read, and permits of pools."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .settings import Settings

#: The most permits of a pool that one attempt wants.
MOST_PERMITS = 2
#: A lock with a least time stays locked for so many seconds.
LEAST_TIMES = (0.01, 0.05)


@dataclass(frozen=True)
class Wanted:
    """What one attempt wants. An adopted lock has what its ticket gives."""

    #: All names, to write and to read, sorted.
    names: Sequence[str] = ()
    #: Those to read.
    read: Sequence[str] = ()
    #: How many permits of which pools.
    permits: Mapping[str, int] = field(default_factory=dict)
    #: Seconds for which its names stay locked at least.
    at_least: float = 0.0

    @property
    def written(self) -> list[str]:
        return [name for name in self.names if name not in self.read]

    @property
    def may_be_handed_over(self) -> bool:
        return not self.read and not self.permits

    def arguments(self, limit: int) -> dict[str, Any]:
        """Return the arguments of ``lock`` beside the names to write. A plain lock has none."""
        arguments: dict[str, Any] = {}
        if self.read:
            arguments["read"] = tuple(self.read)
        if self.permits:
            arguments["permits"] = {pool: (count, limit) for pool, count in self.permits.items()}
        if self.at_least:
            arguments["at_least"] = self.at_least
        return arguments

    def changed(self, names: Sequence[str], *, upgrades: bool) -> Wanted:
        """Return the same with these names written, or else read."""
        read = [
            name for name in self.names if name not in names and name in self.read or name in names and not upgrades
        ]
        return replace(self, read=read)

    def facts(self) -> dict[str, Any]:
        """Return what the history says of it."""
        facts: dict[str, Any] = {"names": list(self.names)}
        if self.read:
            facts["read"] = list(self.read)
        if self.permits:
            facts["permits"] = dict(self.permits)
        if self.at_least:
            facts["at_least"] = self.at_least
        return facts


def draw(settings: Settings, chance: random.Random, names: Sequence[str], mark: str) -> Wanted:
    """Draw from these names. `mark` is a name that only this worker has."""
    count = chance.randint(settings.fewest, min(settings.most, len(names)))
    drawn = sorted(chance.sample(names, count))
    read = _read(settings, chance, drawn)
    permits: dict[str, int] = {}
    if chance.random() < settings.permits:
        permits = {f"p{chance.randrange(settings.pools)}": chance.randint(1, MOST_PERMITS)}
        if chance.random() < 0.5:
            drawn, read = [], []
    if settings.marked:
        drawn = sorted([*drawn, mark])
    at_least = 0.0
    if not read and not permits and chance.random() < settings.at_least:
        at_least = round(chance.uniform(*LEAST_TIMES), 3)
    return Wanted(drawn, read, permits, at_least)


def _read(settings: Settings, chance: random.Random, names: Sequence[str]) -> list[str]:
    """Return which of the names are read: often all of them, sometimes each with luck."""
    kind = chance.random()
    if kind < settings.reads:
        return list(names)
    if kind < 1.5 * settings.reads:
        return [name for name in names if chance.random() < 0.5]
    return []
