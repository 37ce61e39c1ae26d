"""What the workers of a cell share: the cycles left to do, and what has happened so far."""

from __future__ import annotations

import random
from collections.abc import Iterator
from operator import itemgetter

from pinyon.cli.stress.checks import overlapping

from ..model import WrongResult
from ..protocol import LocksSpec

DRAWS_SEED = 19
#: The i-th of the second test's workers sleeps i of these, and the shortest sleep besides.
DELAY_STEP, SHORTEST_DELAY = 1e-5, 1e-3
LARGEST_VALUE = 10**18
#: How long a worker stays inside while it is checked that nobody else comes in: long enough for one who would.
INSIDE_SECONDS = 1e-4


class Tally:
    """Counts cycles, and finds two workers inside at once."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds: list[float] = []
        self._inside: list[tuple[float, float]] = []

    def note(self, entered: float, left: float) -> None:
        """Records when a worker was inside."""
        self._inside.append((entered, left))
        self.count += 1

    def require_alone(self) -> None:
        """Raises WrongResult when two workers were inside at the same time."""
        if next(overlapping(self._inside, itemgetter(0), itemgetter(1)), None):
            raise WrongResult("two workers were inside at once")

    def require(self, count: int) -> None:
        """Raises WrongResult when the number of cycles is wrong."""
        if self.count != count:
            raise WrongResult(f"the counter is {self.count} instead of {count}")


def draws_of(row: LocksSpec, count: int) -> Iterator[list[str]]:
    """Returns the names of each cycle, drawn at random and the same every time; workers share the iterator."""
    source = random.Random(DRAWS_SEED)
    return iter([source.sample(row["names"], row["keys"]) for _ in range(count)])


def delays_of(workers: int) -> list[float]:
    """Returns how long each worker of the second test sleeps before a cycle, in seconds."""
    delays = [number * DELAY_STEP + SHORTEST_DELAY for number in range(1, workers + 1)]
    random.Random(DRAWS_SEED).shuffle(delays)
    return delays
