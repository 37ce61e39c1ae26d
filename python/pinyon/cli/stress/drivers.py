"""Workers side by side in one process: threads, greenlets or tasks."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Callable

import pinyon

if TYPE_CHECKING:
    from pinyon.cli.stress.plan import Plan
    from pinyon.cli.stress.worker import Worker


def run(plan: Plan, workers: list[Worker]) -> None:
    """Let all workers go through their keys. Raises ``Stop`` if one met a mismatch."""
    {"blocking": _run_threads, "gevent": _run_greenlets, "asyncio": _run_tasks}[plan.driver](plan, workers)


def _run_threads(plan: Plan, workers: list[Worker]) -> None:
    with pinyon.Locks(**plan.settings) as locks:
        raised: list[BaseException] = []

        def work(worker: Worker) -> None:
            try:
                _work(worker, locks, time.sleep)
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]


def _run_greenlets(plan: Plan, workers: list[Worker]) -> None:
    import gevent

    import pinyon.gevent

    with pinyon.gevent.Locks(**plan.settings) as locks:
        gevent.joinall([gevent.spawn(_work, worker, locks, gevent.sleep) for worker in workers], raise_error=True)


def _run_tasks(plan: Plan, workers: list[Worker]) -> None:
    import asyncio

    import pinyon.aio

    async def work() -> None:
        async with pinyon.aio.Locks(**plan.settings) as locks:
            await asyncio.gather(*[_work_in_task(worker, locks, asyncio.sleep) for worker in workers])

    asyncio.run(work())


def _work(worker: Worker, locks: pinyon.Locks, sleep: Callable[[float], object]) -> None:
    settings = worker.lock_settings()
    for key in worker.still_left():
        try:
            with locks.lock(key, **settings) as held:
                start = time.monotonic()
                place, written = locks.prefix + f"{key}:widget".encode(), worker.new_value()
                locks.execute("SET", place, written)
                sleep(worker.plan.sleep)
                read = locks.execute("GET", place)
                end = time.monotonic()
                # What a lock does not outlast proves nothing: a process that is kept from running loses it.
                held.check()
            outcome = (key, start, end, held.token, written, read)
        except Exception as error:
            worker.failed(key, error)
        else:
            worker.passed(*outcome)


async def _work_in_task(worker: Worker, locks: Any, sleep: Callable[[float], Any]) -> None:
    settings = worker.lock_settings()
    for key in worker.still_left():
        try:
            async with locks.lock(key, **settings) as held:
                start = time.monotonic()
                place, written = locks.prefix + f"{key}:widget".encode(), worker.new_value()
                await locks.execute("SET", place, written)
                await sleep(worker.plan.sleep)
                read = await locks.execute("GET", place)
                end = time.monotonic()
                held.check()
            outcome = (key, start, end, held.token, written, read)
        except Exception as error:
            worker.failed(key, error)
        else:
            worker.passed(*outcome)
