"""The clock around a Python contestant's work."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .protocol import Timing


class Stopwatch:
    """Starts when it is made: `time.perf_counter` and `getrusage(RUSAGE_SELF)`."""

    def __init__(self) -> None:
        self._before = resource.getrusage(resource.RUSAGE_SELF)
        self._start = time.perf_counter()

    def elapsed(self) -> Timing:
        """Returns the seconds since the start, by the clock and of this process's processor time."""
        wall = time.perf_counter() - self._start
        after = resource.getrusage(resource.RUSAGE_SELF)
        user, system = after.ru_utime - self._before.ru_utime, after.ru_stime - self._before.ru_stime
        return {"wall": wall, "user": user, "system": system}


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collects garbage now, and none within the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
