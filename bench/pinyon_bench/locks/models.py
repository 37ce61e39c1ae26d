"""How workers that lock run at once: threads, greenlets, or tasks of an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..coroutines.models import ASYNCIO, BLOCKING, GEVENT
from . import async_work, blocking_work
from .calls import LockCalls

#: A worker's whole work; in asyncio it gives a coroutine.
Job = Callable[[], Any]


class WorkerModel(Protocol):
    """A concurrency model of workers. `work` is the module with what they do, `pause` lets others run."""

    @property
    def work(self) -> Any: ...
    @property
    def pause(self) -> Callable[[float], Any]: ...

    def connect(self, adapter: Any, server: str, ttl: int) -> LockCalls:
        """Returns a new client of this model."""

    def run(self, jobs: list[Job]) -> list[Any]:
        """Does all jobs at once and returns what each gave; raises what the first to fail raised."""

    def close(self, calls: LockCalls) -> None:
        """Closes a client."""


def make_worker_model(name: str) -> WorkerModel:
    """Returns the concurrency model; raises ImportError when its library is absent, ValueError for an unknown one."""
    if name == BLOCKING:
        return Threads()
    if name == GEVENT:
        return Greenlets()
    if name == ASYNCIO:
        return Tasks()
    raise ValueError(f"no concurrency model {name!r}")


class Threads:
    """A thread for each worker; a single worker needs none of its own."""

    work = blocking_work

    def __init__(self) -> None:
        self.pause: Callable[[float], Any] = time.sleep

    def connect(self, adapter: Any, server: str, ttl: int) -> LockCalls:
        calls: LockCalls = adapter.connect(server, ttl)
        return calls

    def run(self, jobs: list[Job]) -> list[Any]:
        if len(jobs) == 1:
            return [jobs[0]()]
        results: list[Any] = [None] * len(jobs)
        failures: list[BaseException] = []

        def do(number: int, job: Job) -> None:
            try:
                results[number] = job()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=do, args=each, daemon=True) for each in enumerate(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return results

    def close(self, calls: LockCalls) -> None:
        calls.close()


class Greenlets(Threads):
    """Greenlets of gevent's hub."""

    def __init__(self) -> None:
        import gevent

        self.pause = gevent.sleep

    def run(self, jobs: list[Job]) -> list[Any]:
        import gevent

        greenlets = [gevent.spawn(job) for job in jobs]
        try:
            gevent.joinall(greenlets, raise_error=True)
        except BaseException:
            gevent.killall(greenlets)
            raise
        return [greenlet.value for greenlet in greenlets]


class Tasks:
    """Tasks of one event loop, which runs while a request is being done and keeps its connections in between."""

    work = async_work

    def __init__(self) -> None:
        self.pause: Callable[[float], Any] = asyncio.sleep
        self._loop = asyncio.new_event_loop()

    def connect(self, adapter: Any, server: str, ttl: int) -> LockCalls:
        calls: LockCalls = self._loop.run_until_complete(adapter.connect(server, ttl))
        return calls

    def run(self, jobs: list[Job]) -> list[Any]:
        return self._loop.run_until_complete(_all(jobs))

    def close(self, calls: LockCalls) -> None:
        self._loop.run_until_complete(calls.close())


async def _all(jobs: list[Job]) -> list[Any]:
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
