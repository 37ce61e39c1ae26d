"""What the workers of a cell share: the cycles left to do, and what has happened so far."""

from __future__ import annotations

import random
from collections.abc import Iterator
from operator import itemgetter

from pinyon.cli.stress.checks import overlapping

from ..model import WrongResult
from ..protocol import LocksSpec

DRAWS_SEED = 19
#: The i-th worker of the second test sleeps i steps, plus the shortest sleep.
DELAY_STEP, SHORTEST_DELAY = 1e-5, 1e-3
LARGEST_VALUE = 10**18
#: How long a worker stays inside during verification: long enough for another to come in, if it could.
INSIDE_SECONDS = 1e-4


class Tally:
    """Counts cycles, and detects two workers inside at once."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds: list[float] = []
        self._inside: list[tuple[float, float]] = []

    def note(self, entered: float, left: float) -> None:
        """Records when a worker was inside."""
        self._inside.append((entered, left))
        self.count += 1

    def require_alone(self) -> None:
        """Raises WrongResult if two workers were inside at the same time."""
        if next(overlapping(self._inside, itemgetter(0), itemgetter(1)), None):
            raise WrongResult("two workers were inside at once")

    def require(self, count: int) -> None:
        """Raises WrongResult when the number of cycles is wrong."""
        if self.count != count:
            raise WrongResult(f"the counter is {self.count} instead of {count}")


def draws_of(row: LocksSpec, count: int) -> Iterator[list[str]]:
    """Returns the names of each cycle, random but the same every time. Workers share the iterator."""
    source = random.Random(DRAWS_SEED)
    return iter([source.sample(row["names"], row["keys"]) for _ in range(count)])


def delays_of(workers: int) -> list[float]:
    """Returns the seconds that each worker of the second test sleeps before a cycle."""
    delays = [number * DELAY_STEP + SHORTEST_DELAY for number in range(1, workers + 1)]
    random.Random(DRAWS_SEED).shuffle(delays)
    return delays
