"""The Python contestants' side of rows of locks: the same work and checks for every library and concurrency model."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from itertools import cycle
from time import perf_counter
from typing import Any

from pinyon.cli.stress.models import Model, Tasks

from ..calls import CannotDo
from ..clock import Stopwatch, no_garbage_collection
from ..protocol import LocksSpec
from .calls import LockAdapter, LockCalls
from .tally import Tally
from .work import Checked, Writing, hold, lock_awaiting, lock_each, pair, ping
from .workloads import HANDOVER, MUTEX, PAIR, PING, QUORUM, SECTION

Work = Coroutine[Any, Any, Any]


class LocksHarness:
    """Verifies and times an adapter's library on rows of locks. Keeps its client between requests."""

    def __init__(self, adapter: LockAdapter, model: Model) -> None:
        self._adapter = adapter
        self._model = model
        self._clients: dict[str, LockCalls] = {}

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Does one request. Raises CannotDo, WrongResult or the library's exception, and then drops its client."""
        if request["do"] == "describe":
            return {"version": self._adapter.version(), "configuration": self._adapter.configuration()}
        if request["do"] != "play":
            raise CannotDo(f"no request {request['do']!r}")
        try:
            return self._play(request["row"])
        except BaseException:
            with suppress(Exception):
                self.close()
            raise

    def close(self) -> None:
        """Closes the clients."""
        while self._clients:
            self._model.run(self._model.outcome(self._clients.popitem()[1].close()))

    def _client(self, row: LocksSpec) -> LockCalls:
        server = row["server"]
        if server not in self._clients:
            connecting = self._model.outcome(self._adapter.connect(server, row["ttl"]))
            self._clients[server] = self._model.run(connecting)
        return self._clients[server]

    def _play(self, row: LocksSpec) -> dict[str, Any]:
        calls, tally = self._client(row), Tally()
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
        draws = [[row["names"][place] for place in places] for places in row["draws"]]
        if workload == SECTION:
            shared, until = cycle(draws), perf_counter() + row["seconds"]
            return [Writing(model, shared, delay, until, tally).work(calls) for delay in row["delays"]]
        taken = iter(draws[: row["count"]])
        if workload in (PAIR, MUTEX, QUORUM) and row["check"]:
            return [Checked(model, taken, tally).work(calls) for _ in workers]
        if workload in (PAIR, MUTEX):
            work = lock_awaiting if isinstance(model, Tasks) else lock_each
            return [work(calls, taken, tally) for _ in workers]
        if workload == QUORUM:
            return [pair(model, calls, taken, tally) for _ in workers]
        if workload == HANDOVER:
            return [hold(model, calls, row, tally)]
        raise CannotDo(f"no workload {workload!r}")
