"""A Python contestant's side for rows of locks: the same work and checks for every library and concurrency model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any

from ..calls import CannotDo
from ..clock import Stopwatch, no_garbage_collection
from ..coroutines.work import latency_of
from ..protocol import LocksSpec
from .calls import LockAdapter, LockCalls
from .models import Job, WorkerModel
from .rows import HANDOVER, MUTEX, PAIR, PING, SECTION
from .tally import Tally, delays_of, draws_of

Do = Callable[[LocksSpec], dict[str, Any]]


class LocksHarness:
    """Verifies and times an adapter's library on rows of locks, and keeps its client between requests."""

    def __init__(self, adapter: LockAdapter, model: WorkerModel) -> None:
        self._adapter = adapter
        self._model = model
        self._clients: dict[str, LockCalls] = {}

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Does one request; raises CannotDo, WrongResult or what the library raises, and drops its client then."""
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
            self._model.close(self._clients.popitem()[1])

    def _client(self, row: LocksSpec) -> LockCalls:
        server = row["server"]
        if server not in self._clients:
            self._clients[server] = self._model.connect(self._adapter, server, row["ttl"])
        return self._clients[server]

    def _verify(self, row: LocksSpec) -> dict[str, Any]:
        calls, tally, work = self._client(row), Tally(), self._model.work
        if row["workload"] in (PING, SECTION, HANDOVER):
            return self._run(calls, row, tally)
        draws = draws_of(row, row["count"])
        start = perf_counter()
        self._model.run([partial(work.check, calls, draws, self._model.pause, tally)] * row["workers"])
        tally.require(row["count"])
        return {"wall": perf_counter() - start, "cycles": tally.count}

    def _time(self, row: LocksSpec) -> dict[str, Any]:
        calls = self._client(row)
        if row["warmup"]:
            self._model.run(self._jobs(calls, {**row, "count": row["warmup"]}, Tally()))
        with no_garbage_collection():
            return self._run(calls, row, Tally())

    def _run(self, calls: LockCalls, row: LocksSpec, tally: Tally) -> dict[str, Any]:
        """Does the row's cycles once, by the clock."""
        jobs = self._jobs(calls, row, tally)
        watch = Stopwatch()
        results = self._model.run(jobs)
        timing = watch.elapsed()
        if row["count"]:
            tally.require(row["count"])
        reply = {**timing, "cycles": tally.count, "latency": latency_of(tally.seconds)}
        return {**reply, "held": results[0]} if row["workload"] == HANDOVER else reply

    def _jobs(self, calls: LockCalls, row: LocksSpec, tally: Tally) -> list[Job]:
        """Returns what each worker does; raises CannotDo for a workload that takes more than a library."""
        work, workload, workers = self._model.work, row["workload"], row["workers"]
        if workload == PING:
            return [partial(work.ping, calls, row["count"], tally)]
        if workload in (PAIR, MUTEX):
            return [partial(work.cycle, calls, draws_of(row, row["count"]), tally)] * workers
        if workload == SECTION:
            until = perf_counter() + row["seconds"]
            return [
                partial(work.work, calls, row, delay, until, self._model.pause, tally) for delay in delays_of(workers)
            ]
        if workload == HANDOVER:
            return [partial(work.hold, calls, row, tally)]
        raise CannotDo(f"no workload {workload!r}")
