"""Threads and greenlets: both call the same methods; they differ in how they run, sleep and are cancelled."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

import pinyon
from pinyon.errors import LockTimeout

from .section import AFTER_ERROR, Worker
from .settings import Settings


def make_locks(settings: Settings) -> Any:
    """Return the locks that one client process, or one worker of it, works with."""
    if settings.model == "gevent":
        import pinyon.gevent as module
    elif settings.model == "asyncio":
        import pinyon.aio as module
    else:
        module = pinyon
    from .settings import NAMESPACE

    return module.Locks(
        settings.url,
        namespace=NAMESPACE,
        ttl=settings.ttl,
        heartbeat=settings.heartbeat,
        command_timeout=settings.command_timeout,
        connect_timeout=max(1.0, settings.command_timeout),
        handler=settings.handler,
        fairness=settings.fairness,
    )


class Threads:
    """How threads run and wait."""

    sleep = staticmethod(time.sleep)

    @staticmethod
    def run_all(bodies: list[Any]) -> None:
        threads = [threading.Thread(target=body) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @staticmethod
    def acquire(lock: Any, worker: Worker) -> Any:
        """Threads cannot be cancelled: they wait for a short time."""
        return lock.acquire()

    @staticmethod
    def patience(worker: Worker) -> float | None:
        after = worker.cancel_after()
        return None if after is None else max(after, 0.0005)


class Greenlets:
    """How greenlets run and wait."""

    @staticmethod
    def sleep(seconds: float) -> None:
        import gevent

        gevent.sleep(seconds)

    @staticmethod
    def run_all(bodies: list[Any]) -> None:
        import gevent

        gevent.joinall([gevent.spawn(body) for body in bodies], raise_error=True)

    @staticmethod
    def acquire(lock: Any, worker: Worker) -> Any:
        """Acquire in the worker's own greenlet, with an exception thrown into it after a while."""
        import gevent

        after = worker.cancel_after()
        if after is None:
            return lock.acquire()
        if after > 0:
            with gevent.Timeout(after, LockTimeout("cancelled")):
                return lock.acquire()
        acquiring = gevent.spawn(_held_or_error, lock)
        for _ in range(int(-after) + 1):
            gevent.sleep(0)
        acquiring.kill()
        held = acquiring.get()
        if isinstance(held, gevent.GreenletExit):
            raise LockTimeout("cancelled")
        if isinstance(held, pinyon.Error):
            raise held
        return held

    @staticmethod
    def patience(worker: Worker) -> float | None:
        return None


def _held_or_error(lock: Any) -> Any:
    try:
        return lock.acquire()
    except pinyon.Error as error:
        return error


def work(settings: Settings, workers: list[Worker]) -> None:
    """Run all workers until their time is over, and close."""
    model: Any = Greenlets if settings.model == "gevent" else Threads
    shared = make_locks(settings)
    all_locks = [make_locks(settings) if settings.apart else shared for _ in workers]
    model.run_all([_body(model, locks, worker) for locks, worker in zip(all_locks, workers)])
    for locks in all_locks:
        locks.close()


def _body(model: Any, locks: Any, worker: Worker) -> Any:
    def body() -> None:
        while worker.goes_on():
            one(model, locks, worker)
            model.sleep(worker.rest())

    return body


def one(model: Any, locks: Any, worker: Worker) -> None:
    """One attempt, from asking to giving back."""
    arguments = worker.draw()
    arguments["timeout"] = model.patience(worker) or arguments["timeout"]
    try:
        held = model.acquire(locks.lock(*worker.names, **arguments), worker)
    except LockTimeout:
        worker.gave_up()
        return
    except pinyon.Error as error:
        worker.failed(error)
        model.sleep(AFTER_ERROR)
        return
    for pause in worker.stay(held):
        model.sleep(pause)
        if worker.random.random() < worker.settings.forks:
            _fork_inside(model, locks, worker, held)
    if inner := worker.inner():
        one(model, locks, inner)
    if not _wait_on_condition(model, worker, held):
        return
    worker.record("release", worker.attempt)
    try:
        worker.record("released", worker.attempt, kept=held.release())
    except pinyon.Error as error:
        worker.record("released", worker.attempt, kept=None, error=str(error))


def _wait_on_condition(model: Any, worker: Worker, held: Any) -> bool:
    """Now and then, give the names back until somebody notifies. Return whether they are held."""
    token, timeout = held.token, worker.waits()
    if timeout is None:
        return True
    try:
        with contextlib.suppress(pinyon.Error):
            held.notify()
        held.wait(timeout)
    except LockTimeout:
        worker.record("cancel", worker.attempt)
        return False
    except pinyon.Error as error:
        worker.failed(error)
        with contextlib.suppress(pinyon.Error):
            held.release()
        return False
    if held.token == token:
        # Woken for nothing, before the server had heard of it: the names were never given back.
        worker.record("cancel", worker.attempt)
        return True
    for pause in worker.stay(held):
        model.sleep(pause)
    return True


def _fork_inside(model: Any, locks: Any, worker: Worker, held: Any) -> None:
    """A child must not hold, renew or give back what its parent holds, and works with locks of its own."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            worker.record.after_fork()
            _be_child(model, locks, worker, held)
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if status:
                worker.violated(f"a forked child ended with status {status}")
            return
        model.sleep(0.002)
        worker.believes(held)
    worker.violated("a forked child did not end in 30 seconds")
    os.kill(child, 9)
    os.waitpid(child, 0)


def _be_child(model: Any, locks: Any, worker: Worker, held: Any) -> None:
    parent, worker.attempt = worker.attempt, ""
    worker.after_fork()
    if not held.is_lost or held.remaining() > 0:
        worker.violated(f"a forked child believes that it holds {parent}")
    try:
        if held.release():
            worker.violated(f"a forked child gave back {parent}")
    except pinyon.Error:
        pass
    quiet = worker.settings.but(forks=0.0, cancels=1.0, patience=0.3, long_stays=0.0)
    worker.settings = quiet
    for _ in range(3):
        one(model, locks, worker)
