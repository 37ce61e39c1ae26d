"""Tasks: cancelled after a while, or after a number of turns of their loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pinyon
from pinyon.errors import LockTimeout

from .blocking_work import make_locks
from .section import AFTER_ERROR, Worker
from .settings import Settings


def work(settings: Settings, workers: list[Worker]) -> None:
    """Run all workers until their time is over, and close."""
    asyncio.run(_work(settings, workers))


async def _work(settings: Settings, workers: list[Worker]) -> None:
    shared = make_locks(settings)
    all_locks = [make_locks(settings) if settings.apart else shared for _ in workers]
    await asyncio.gather(*(_body(locks, worker) for locks, worker in zip(all_locks, workers)))
    for locks in all_locks:
        locks.close()


async def _body(locks: Any, worker: Worker) -> None:
    while worker.goes_on():
        await _one(locks, worker)
        await asyncio.sleep(worker.rest())


async def _one(locks: Any, worker: Worker) -> None:
    arguments = worker.draw()
    try:
        held = await _acquire(locks.lock(*worker.names, **arguments), worker)
    except (LockTimeout, asyncio.CancelledError):
        worker.gave_up()
        return
    except pinyon.Error as error:
        worker.failed(error)
        await asyncio.sleep(AFTER_ERROR)
        return
    for pause in worker.stay(held):
        await asyncio.sleep(pause)
    if inner := worker.inner():
        await _one(locks, inner)
    if not await _wait_on_condition(worker, held):
        return
    worker.record("release", worker.attempt)
    try:
        worker.record("released", worker.attempt, kept=await held.release())
    except pinyon.Error as error:
        worker.record("released", worker.attempt, kept=None, error=str(error))


async def _wait_on_condition(worker: Worker, held: Any) -> bool:
    """Now and then, give the names back until somebody notifies. Return whether they are held."""
    token, timeout = held.token, worker.waits()
    if timeout is None:
        return True
    try:
        with contextlib.suppress(pinyon.Error):
            await held.notify()
        await held.wait(timeout)
    except LockTimeout:
        worker.record("cancel", worker.attempt)
        return False
    except pinyon.Error as error:
        worker.failed(error)
        with contextlib.suppress(pinyon.Error):
            await held.release()
        return False
    if held.token == token:
        # Woken for nothing, before the server had heard of it: the names were never given back.
        worker.record("cancel", worker.attempt)
        return True
    for pause in worker.stay(held):
        await asyncio.sleep(pause)
    return True


async def _acquire(lock: Any, worker: Worker) -> Any:
    after = worker.cancel_after()
    if after is None:
        return await lock.acquire()
    acquiring = asyncio.ensure_future(lock.acquire())
    if after > 0:
        await asyncio.wait([acquiring], timeout=after)
    for _ in range(int(-after)):
        await asyncio.sleep(0)
    acquiring.cancel()
    return await acquiring
