"""Unique tasks of Celery, with real workers in forked processes, and Redis as their broker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, group, states
from celery.exceptions import TaskRevokedError
from celery_unique_tasks import application, locks_at
from servers import Redis
from test_celery import SOON
from test_unique_jobs import nothing_left, until
from waiting import PATIENT

import pinyon
import pinyon.aio
from pinyon.frameworks.celery import unique


class Site:
    """An application, its server, and what its tasks have told."""

    def __init__(self, redis: Redis) -> None:
        self.url = redis.url
        self.locks = locks_at(redis.url)
        self.app: Celery = application(redis.url, self.locks)

    def __getattr__(self, name: str) -> Any:
        return self.app.tasks[name]

    def open(self, *names: str) -> None:
        for name in names:
            self.locks.execute("SET", f"open:{name}", "1")

    def told(self) -> list[str]:
        found: list[bytes] = self.locks.execute("LRANGE", "told", 0, -1)
        return [each.decode() for each in found]

    def tells(self, *what: str) -> None:
        until(lambda: set(what) <= set(self.told()))

    @contextlib.contextmanager
    def working(self, concurrency: int = 2, pool: str = "prefork") -> Iterator[subprocess.Popen[bytes]]:
        """A worker in a separate process. It ends by SIGTERM, and leaves no key of a lock."""
        with self.worker(concurrency, pool) as worker:
            yield worker
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(SOON["timeout"]) == 0
        nothing_left(self.url, "unique")

    @contextlib.contextmanager
    def worker(self, concurrency: int, pool: str = "prefork") -> Iterator[subprocess.Popen[bytes]]:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
        size = ["--pool", pool, "--concurrency", str(concurrency)]
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "--app", "celery_unique_tasks:app", "worker", *quiet, *size],
            cwd=Path(__file__).parent,
            env={**os.environ, "UNIQUE_URL": self.url, "PYTHONWARNINGS": "ignore"},
        )
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()


@pytest.fixture
def site(own_redis: Redis) -> Iterator[Site]:
    made = Site(own_redis)
    with made.locks:
        yield made


def refused(result: Any) -> str:
    assert result.state == states.REVOKED
    with pytest.raises(TaskRevokedError) as raised:
        result.get(**SOON)
    return str(raised.value)


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_a_task_that_is_enqueued_is_not_enqueued_again(site: Site, pool: str) -> None:
    first = site.report.delay(7, "first")
    assert "there is a job that has the lock 'report:7'" in refused(site.report.delay(n=7))
    other = site.report.delay(8, "other")
    with site.working(pool=pool):
        site.tells("begun first", "begun other")
        refused(site.report.delay(7))
        site.open("first", "other", "again")
        assert [first.get(**SOON), other.get(**SOON)] == ["first", "other"]
        until(lambda: not site.locks.is_locked("report:7"))
        assert site.report.delay(7, "again").get(**SOON) == "again"


def test_a_later_task_replaces_one_that_waits_in_the_queue(site: Site) -> None:
    first, second = site.newest.delay(7, "first"), site.newest.delay(7, "second")
    with site.working():
        assert "a later job" in refused_later(first)
        site.tells("begun second")
        with pytest.raises(pinyon.LockTimeout):
            site.newest.delay(7, "third")
        site.open("second")
        assert second.get(**SOON) == "second"
        assert site.told() == ["begun second", "ended second"]
        assert site.locks.force_release(*(key.decode() for key in marks(site.locks))) == 1


def marks(locks: pinyon.Locks) -> list[bytes]:
    """The names that say which tasks were replaced. They last as long as a message may, an hour here."""
    found: list[bytes] = locks.execute("KEYS", "{unique}:l:*:replaced:*")
    return [key.partition(b":l:")[2] for key in found]


def refused_later(result: Any) -> str:
    with pytest.raises(TaskRevokedError) as raised:
        result.get(**SOON)
    return str(raised.value)


def test_tasks_that_run_alone_wait_in_the_queue(site: Site) -> None:
    with site.working():
        results = [site.alone.delay(7, name) for name in ("a", "b", "c")]
        until(site.told)
        (begun,) = site.told()
        site.open("a", "b", "c")
        assert [result.get(**SOON) for result in results] == ["a", "b", "c"]
        told = site.told()
        assert told[0] == begun
        pairs = list(zip(told[::2], told[1::2]))
        assert [ended for _, ended in pairs] == [begun.replace("begun", "ended") for begun, _ in pairs]


def test_a_second_task_does_not_run_beside_the_first(site: Site) -> None:
    with site.working():
        first = site.single.delay(7, "first")
        site.tells("begun first")
        assert "another job has the lock 'single:7'" in refused_later(site.single.delay(7, "second"))
        site.open("first")
        assert first.get(**SOON) == "first"


def test_a_task_whose_worker_was_killed_runs_again(site: Site) -> None:
    with site.working(concurrency=1):
        result = site.killed.delay(7)
        until(site.told)
        os.kill(int(site.told()[0].split()[1]), signal.SIGKILL)
        assert site.locks.is_locked("killed:7")
        assert "there is a job" in refused(site.killed.delay(7))
        assert result.get(**SOON) == 7
        first, second = site.told()
        assert first != second


def test_a_worker_that_is_killed_leaves_nothing(site: Site) -> None:
    site.killed.delay(7)
    with site.worker(concurrency=1) as worker:
        until(site.told)
        worker.kill()
        os.kill(int(site.told()[0].split()[1]), signal.SIGKILL)
    nothing_left(site.url, "unique")


def test_sigterm_lets_a_task_end_and_release(site: Site) -> None:
    result = site.report.delay(7, "slow")
    with site.working() as worker:
        site.tells("begun slow")
        worker.send_signal(signal.SIGTERM)
        assert site.locks.is_locked("report:7")
        site.open("slow")
    assert result.get(**SOON) == "slow"


def test_a_retry_keeps_the_lock(site: Site) -> None:
    with site.working():
        result = site.again.delay(7)
        until(lambda: result.state == states.RETRY)
        refused(site.again.delay(7))
        assert site.told() == []
        site.open("again")
        assert result.get(**SOON) == 7


def test_a_task_of_a_group_that_is_skipped_keeps_nobody_waiting(site: Site) -> None:
    site.open("report")
    with site.working():
        result = group(site.report.s(7), site.report.s(8), site.report.s(7))()
        with pytest.raises(TaskRevokedError):
            result.get(**SOON)
        assert [each.get(**SOON, propagate=False) for each in result.results[:2]] == ["report", "report"]


def test_a_task_that_could_not_be_sent_is_not_locked(site: Site) -> None:
    with pytest.raises(Exception, match="serializer"):
        site.report.apply_async((7,), serializer="no such serializer")
    assert not site.locks.is_locked("report:7")
    with pytest.raises(TypeError):
        site.report.delay()
    assert not site.locks.is_locked("report:7")


def test_a_task_waits_in_the_queue_for_as_long_as_it_is_told_to(site: Site) -> None:
    site.report.apply_async((7,), countdown=10_000)
    (status,) = site.locks.status("report:7")
    assert status.remaining is not None
    assert 13_000 < status.remaining <= 13_600


def test_a_call_without_a_worker(site: Site) -> None:
    site.open("report")
    with site.locks.lock("report:7"):
        assert site.report(7) == "report", "a call as a function runs the function alone"
        assert site.report.apply((8,)).get() == "report"
    site.app.conf.task_always_eager = True
    with pinyon.Locks(site.url, namespace="unique", **PATIENT) as others, others.lock("report:7"):
        assert site.report.delay(7).state == states.IGNORED
    assert site.report.delay(7).get() == "report"
    assert site.report.lock_name(7) == "report:7"
    assert site.report.held is None


def test_what_makes_no_sense_is_refused() -> None:
    locks = pinyon.Locks()
    app = Celery("refused", set_as_current=False)
    with pytest.raises(pinyon.UsageError, match="names no lock"):
        unique(locks, "report:{n")
    with pytest.raises(pinyon.UsageError, match="change the name"):
        unique(locks, "report:{n}:runs")
    with pytest.raises(pinyon.UsageError, match="base must be a class"):
        unique(locks, "report:{n}", base=int)
    with pytest.raises(pinyon.UsageError, match="workers run jobs in threads"):
        unique(pinyon.aio.Locks(), "report:{n}")  # type: ignore[arg-type]

    @app.task(base=unique(locks, "report:{m}"), shared=False)  # type: ignore[untyped-decorator]
    def report(n: int) -> int:
        return n

    with pytest.raises(pinyon.UsageError, match=r"no argument of .*report fills 'm'"):
        report.delay(7)
