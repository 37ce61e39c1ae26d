"""The Python contestants' side of rows of locks: the same work and checks for every library and concurrency model."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import perf_counter
from typing import Any

from pinyon.cli.stress.models import Model, Tasks

from ..calls import CannotDo
from ..clock import Stopwatch, no_garbage_collection
from ..coroutines.work import latency_of
from ..protocol import LocksSpec
from .calls import LockAdapter, LockCalls
from .tally import Tally, delays_of, draws_of
from .work import Checked, Writing, cycle, cycle_awaiting, hold, pair, ping
from .workloads import HANDOVER, MUTEX, PAIR, PING, QUORUM, SECTION

Do = Callable[[LocksSpec], dict[str, Any]]
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
        actions: dict[str, Do] = {"verify": self._verify, "time": self._time}
        if request["do"] not in actions:
            raise CannotDo(f"no request {request['do']!r}")
        try:
            return actions[request["do"]](request["row"])
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

    def _verify(self, row: LocksSpec) -> dict[str, Any]:
        calls, tally = self._client(row), Tally()
        if row["workload"] in (PING, SECTION, HANDOVER):
            return self._run(calls, row, tally)
        draws = draws_of(row, row["count"])
        start = perf_counter()
        self._together([Checked(self._model, draws, tally).work(calls) for _ in range(row["workers"])])
        tally.require_alone()
        tally.require(row["count"])
        return {"wall": perf_counter() - start, "cycles": tally.count}

    def _time(self, row: LocksSpec) -> dict[str, Any]:
        calls = self._client(row)
        if row["warmup"]:
            self._together(self._works(calls, {**row, "count": row["warmup"]}, Tally()))
        with no_garbage_collection():
            return self._run(calls, row, Tally())

    def _run(self, calls: LockCalls, row: LocksSpec, tally: Tally) -> dict[str, Any]:
        """Does the row's cycles once, timed."""
        works = self._works(calls, row, tally)
        watch = Stopwatch()
        results = self._together(works)
        timing = watch.elapsed()
        tally.require_alone()
        if row["count"]:
            tally.require(row["count"])
        reply = {**timing, "cycles": tally.count, "latency": latency_of(tally.seconds)}
        return {**reply, "held": results[0]} if row["workload"] == HANDOVER else reply

    def _together(self, works: list[Work]) -> list[Any]:
        results: list[Any] = self._model.run(self._model.together(works))
        return results

    def _works(self, calls: LockCalls, row: LocksSpec, tally: Tally) -> list[Work]:
        """Returns each worker's work. Raises CannotDo for a workload that needs more than a library."""
        model, workload, workers = self._model, row["workload"], range(row["workers"])
        if workload == PING:
            return [ping(model, calls, row["count"], tally)]
        if workload in (PAIR, MUTEX):
            draws = draws_of(row, row["count"])
            work = cycle_awaiting if isinstance(model, Tasks) else cycle
            return [work(calls, draws, tally) for _ in workers]
        if workload == QUORUM:
            draws = draws_of(row, row["count"])
            return [pair(model, calls, draws, tally) for _ in workers]
        if workload == SECTION:
            until = perf_counter() + row["seconds"]
            return [Writing(model, row, delay, until, tally).work(calls) for delay in delays_of(row["workers"])]
        if workload == HANDOVER:
            return [hold(model, calls, row, tally)]
        raise CannotDo(f"no workload {workload!r}")
