"""The Python contestants' side of rows of locks: the same work and checks for every library and concurrency model."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from itertools import cycle
from time import perf_counter
from typing import Any

from pinyon.cli.stress.models import Tasks

from ..calls import CannotDo
from ..clock import Stopwatch, no_garbage_collection
from ..harness import Kept
from ..protocol import LocksSpec
from .calls import LockCalls
from .tally import Tally
from .work import Checked, Reading, Working, Writing, hold, lock_awaiting, lock_each, pair, ping, rate
from .workloads import HANDOVER, MUTEX, PAIR, PERMITS, PING, QUORUM, RATE, READ, READERS, SECTION, WRITERS

Work = Coroutine[Any, Any, Any]


class LocksHarness(Kept):
    """Does rows of locks."""

    def _play(self, row: LocksSpec) -> dict[str, Any]:
        calls, tally = self._client(row["server"], row["server"], row["ttl"]), Tally()
        if row["warmup"]:
            self._together(self._works(calls, {**row, "count": row["warmup"]}, Tally()))
        with no_garbage_collection():
            works = self._works(calls, row, tally)
            watch = Stopwatch()
            results = self._together(works)
            timing = watch.elapsed()
        reply = {**timing, "cycles": tally.count, "seconds": tally.seconds, "inside": tally.inside}
        return {**reply, "held": results[0]} if row["workload"] == HANDOVER else reply

    def _together(self, works: list[Work]) -> list[Any]:
        results: list[Any] = self._model.run(self._model.together(works))
        return results

    def _works(self, calls: LockCalls, row: LocksSpec, tally: Tally) -> list[Work]:
        """Returns each worker's work. Raises CannotDo for a workload that needs more than a library."""
        model, workload, workers = self._model, row["workload"], range(row["workers"])
        if workload == PING:
            return [ping(model, calls, row["count"], tally)]
        if workload == RATE:
            return [rate(model, _need(calls.allow, workload), row["count"], tally)]
        if workload in (READ, READERS, PERMITS):
            calls = replace(calls, lock=_need(calls.permits if workload == PERMITS else calls.read, workload))
        draws = [[row["names"][place] for place in places] for places in row["draws"]]
        if workload == SECTION:
            shared, until = cycle(draws), perf_counter() + row["seconds"]
            return [Writing(model, shared, delay, until, tally).work(calls) for delay in row["delays"]]
        taken = iter(draws[: row["count"]])
        if workload in (WRITERS, READERS):
            worker = Working if workload == WRITERS else Reading
            return [worker(model, taken, tally).work(calls) for _ in workers]
        if workload in (PAIR, READ, PERMITS, MUTEX, QUORUM) and row["check"]:
            return [Checked(model, taken, tally).work(calls) for _ in workers]
        if workload in (PAIR, READ, PERMITS, MUTEX):
            work = lock_awaiting if isinstance(model, Tasks) else lock_each
            return [work(calls, taken, tally) for _ in workers]
        if workload == QUORUM:
            return [pair(model, calls, taken, tally) for _ in workers]
        if workload == HANDOVER:
            return [hold(model, calls, row, tally)]
        raise CannotDo(f"no workload {workload!r}")


def _need(call: Any, workload: str) -> Any:
    """Returns what a library may not have."""
    if call is None:
        raise CannotDo(f"it has nothing for {workload!r}")
    return call
