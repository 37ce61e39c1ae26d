"""How each concurrency model cancels the wait for a lock: after a time, or after a number of loop turns."""

from __future__ import annotations

import asyncio
from typing import Any

import pinyon
from pinyon.cli.stress.models import Model, Threads
from pinyon.errors import LockTimeout


def shortened(model: Model, arguments: dict[str, Any], cancel_after: float | None) -> dict[str, Any]:
    """Return the settings of a lock. Threads cannot be cancelled, so they get a short time to wait."""
    if cancel_after is None or not isinstance(model, Threads):
        return arguments
    return {**arguments, "timeout": max(cancel_after, 0.0005)}


async def acquire(model: Model, lock: Any, cancel_after: float | None) -> Any:
    """Acquire a lock; cancel after some seconds, or loop turns if negative, and then raise ``LockTimeout``."""
    if cancel_after is None or isinstance(model, Threads):
        return await model.outcome(lock.acquire())
    if model.name == "gevent":
        return _acquire_in_greenlet(lock, cancel_after)
    return await _acquire_in_task(lock, cancel_after)


def _acquire_in_greenlet(lock: Any, cancel_after: float) -> Any:
    """Throw an exception into the worker's own greenlet, or kill another greenlet."""
    import gevent

    if cancel_after > 0:
        with gevent.Timeout(cancel_after, LockTimeout("cancelled")):
            return lock.acquire()
    acquiring = gevent.spawn(_held_or_error, lock)
    for _ in range(int(-cancel_after) + 1):
        gevent.sleep(0)
    acquiring.kill()
    held = acquiring.get()
    if isinstance(held, gevent.GreenletExit):
        raise LockTimeout("cancelled")
    if isinstance(held, pinyon.Error):
        raise held
    return held


def _held_or_error(lock: Any) -> Any:
    try:
        return lock.acquire()
    except pinyon.Error as error:
        return error


async def _acquire_in_task(lock: Any, cancel_after: float) -> Any:
    acquiring = asyncio.ensure_future(lock.acquire())
    if cancel_after > 0:
        await asyncio.wait([acquiring], timeout=cancel_after)
    for _ in range(int(-cancel_after)):
        await asyncio.sleep(0)
    acquiring.cancel()
    try:
        return await acquiring
    except asyncio.CancelledError:
        raise LockTimeout("cancelled") from None
