"""Unique tasks of Celery, whose workers run in separate processes. The environment says where the server is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from celery import Celery

import pinyon
from pinyon.frameworks.celery import unique

_Task = TypeVar("_Task", bound=Callable[..., Any])

#: The ttl of tasks whose worker is killed.
TTL = 3.0


def locks_at(url: str) -> pinyon.Locks:
    return pinyon.Locks(url, namespace="unique", command_timeout=30, connect_timeout=30)


def application(url: str, locks: pinyon.Locks, **config: Any) -> Celery:
    """An application with the tasks of the tests. They write into the list ``told`` what they do."""
    app = Celery("unique", broker=url, backend=url, set_as_current=False)
    app.conf.update(worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True, **config)

    def tell(what: str) -> None:
        locks.execute("RPUSH", "told", what)

    def gate(name: str) -> None:
        """Waits until the test opens the gate."""
        tell(f"begun {name}")
        while not locks.execute("EXISTS", f"open:{name}"):
            time.sleep(0.02)
        tell(f"ended {name}")

    def made(
        name: str, template: str, bind: bool = False, options: Any = None, **terms: Any
    ) -> Callable[[_Task], _Task]:
        decorate: Callable[[_Task], _Task] = app.task(
            name=name, shared=False, bind=bind, base=unique(locks, template, **terms), **(options or {})
        )
        return decorate

    @made("report", "report:{n}")
    def report(n: int, name: str = "report") -> str:
        gate(name)
        return name

    @made("newest", "newest:{n}", on_conflict="replace", timeout=0.1)
    def newest(n: int, name: str) -> str:
        gate(name)
        return name

    @made("alone", "alone:{n}", when="running", on_conflict="wait", timeout=0.1, retry_in=0.1)
    def alone(n: int, name: str) -> str:
        gate(name)
        return name

    @made("single", "single:{n}", when="running")
    def single(n: int, name: str) -> str:
        gate(name)
        return name

    @made("killed", "killed:{n}", True, {"acks_late": True, "reject_on_worker_lost": True}, ttl=TTL)
    def killed(self: Any, n: int) -> int:
        assert self.held.names == (f"killed:{n}",)
        tell(f"pid {os.getpid()}")
        while locks.execute("LLEN", "told") < 2:
            time.sleep(0.02)
        return n

    @made("again", "again:{n}", True, {"max_retries": 1})
    def again(self: Any, n: int) -> int:
        if self.request.retries == 0:
            raise self.retry(countdown=1)
        gate("again")
        return n

    return app


if "UNIQUE_URL" in os.environ:
    app = application(os.environ["UNIQUE_URL"], locks_at(os.environ["UNIQUE_URL"]))
