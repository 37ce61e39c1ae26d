"""Celery's results on memcached, with real workers in a thread, in forked processes, and in greenlets."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chord, group, states
from celery.contrib.testing.worker import start_worker
from celery.exceptions import BackendStoreError, ChordError
from celery.signals import setup_logging
from celery_tasks import application
from conftest import Setting
from servers import PASSWORD, GuardedMemcached, Memcached, Redis

import pinyon
from pinyon.frameworks.celery import PinyonBackend

#: The time limit for workers on slow machines, and the interval between checks, in seconds.
SOON = {"timeout": 120, "interval": 0.02}


def url_of(*servers: Memcached) -> str:
    return f"pinyon+memcached://{';'.join(server.address for server in servers)}/"


@pytest.fixture
def app(server: Memcached) -> Celery:
    options = {"polling_interval": 0.02}
    return application("memory://", url_of(server), broker_transport_options=options)


@pytest.fixture
def backend(app: Celery) -> PinyonBackend:
    made = app.backend
    assert isinstance(made, PinyonBackend)
    return made


def ttl_of(backend: PinyonBackend, key: str) -> int | None:
    item = backend.client.meta(key)
    assert item is not None
    return item.ttl


def check_results(app: Celery) -> None:
    """Checks tasks, failures, groups and chords, as seen by their callers."""
    add, total = app.tasks["add"], app.tasks["total"]
    result = add.delay(1, 2)
    assert result.get(**SOON) == 3
    assert result.state == states.SUCCESS
    with pytest.raises(ValueError, match="no such thing"):
        app.tasks["fail"].delay().get(**SOON)
    assert group(add.s(n, n) for n in range(10))().get(**SOON) == list(range(0, 20, 2))
    assert chord((add.s(n, n) for n in range(10)), total.s()).delay().get(**SOON) == 90
    nested = chord([group(add.s(1, 1), add.s(2, 2)), add.s(3, 3)], total.s())
    assert (nested | add.s(100)).delay().get(**SOON) == 112
    result.forget()
    assert app.AsyncResult(result.id).state == states.PENDING


@contextlib.contextmanager
def working_here(app: Celery) -> Iterator[None]:
    """A worker in a thread of this process. It leaves the loggers alone, which other tests read."""

    def leave_as_it_is(**_: Any) -> None:
        pass

    setup_logging.connect(leave_as_it_is)
    try:
        with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=SOON["timeout"]):
            yield
    finally:
        setup_logging.disconnect(leave_as_it_is)
        logging.captureWarnings(False)


def test_a_worker_in_a_thread(app: Celery) -> None:
    with working_here(app):
        check_results(app)


@contextlib.contextmanager
def working(broker: str, backend: str, *arguments: str) -> Iterator[Celery]:
    """An application with a worker in a separate process."""
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "--app", "celery_tasks:app", "worker", *quiet, *arguments],
        cwd=Path(__file__).parent,
        env={**os.environ, "CELERY_BROKER": broker, "CELERY_BACKEND": backend, "PYTHONWARNINGS": "ignore"},
    )
    try:
        yield application(broker, backend)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SOON["timeout"]) == 0
    finally:
        worker.kill()
        worker.wait()


def processes_of(app: Celery, count: int) -> set[int]:
    """The processes that carry out tasks, of which so many run at a time."""
    done = group(app.tasks["later"].s(n) for n in range(count))().get(**SOON)
    assert [number for number, _ in done] == list(range(count))
    return {process for _, process in done}


def test_workers_that_are_forked(redis: Redis, own_server: Memcached) -> None:
    with working(redis.url, url_of(own_server), "--pool", "prefork", "--concurrency", "2") as app:
        check_results(app)
        assert len(processes_of(app, 10)) == 2
        assert own_server.connections() <= 4


def test_workers_that_are_greenlets_share_a_connection(redis: Redis, own_server: Memcached) -> None:
    with working(redis.url, url_of(own_server), "--pool", "gevent", "--concurrency", "20") as app:
        check_results(app)
        assert len(processes_of(app, 40)) == 1
        assert own_server.connections() <= 2


def test_a_pool_of_servers(setting: Setting) -> None:
    app = application("memory://", f"pinyon+memcached://{';'.join(setting.servers)}")
    backend = app.backend
    ids = [str(uuid.uuid4()) for _ in range(20)]
    for number, each in enumerate(ids):
        backend.store_result(each, number, states.SUCCESS)
    assert len(backend.client.describe()) == len(setting.servers)
    assert backend.as_uri() == f"pinyon+memcached://{';'.join(setting.servers)}/"
    found = dict(backend.get_many(ids, **SOON))
    assert {each: found[each]["result"] for each in ids} == {each: number for number, each in enumerate(ids)}


def test_results_are_written_as_celerys_own_backend_writes_them(server: Memcached, app: Celery) -> None:
    own = Celery("own", broker="memory://", backend=f"cache+memcached://{server.address}/", set_as_current=False)
    own.backend.store_result("old", {"n": 1}, states.SUCCESS)
    app.backend.store_result("new", {"n": 2}, states.SUCCESS)
    assert app.AsyncResult("old").get(**SOON) == {"n": 1}
    assert own.AsyncResult("new").get(**SOON) == {"n": 2}


def test_results_are_read_whatever_client_wrote_them(server: Memcached, app: Celery) -> None:
    written = b'{"status": "SUCCESS", "result": 5, "task_id": "id", "children": []}'
    server.ask(b"set celery-task-meta-id 77 0 %d\r\n%s\r\n" % (len(written), written), b"STORED\r\n")
    assert app.AsyncResult("id").get(**SOON) == 5


@pytest.mark.parametrize("serializer", ["json", "pickle"])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_whatever_celery_makes_of_a_result(server: Memcached, serializer: str, compression: str | None) -> None:
    config = {"result_serializer": serializer, "result_compression": compression, "accept_content": [serializer]}
    app = application("memory://", url_of(server), **config)
    app.backend.store_result("id", ["ü"] * 1000, states.SUCCESS)
    assert app.AsyncResult("id").get(**SOON) == ["ü"] * 1000


def test_results_expire(server: Memcached, backend: PinyonBackend) -> None:
    backend.store_result("day", 1, states.SUCCESS)
    assert ttl_of(backend, "celery-task-meta-day") == pytest.approx(86400, abs=60)
    backend.expire("celery-task-meta-day", 50)
    assert ttl_of(backend, "celery-task-meta-day") == pytest.approx(50, abs=5)
    for expires, ttl in ((90 * 86400, pytest.approx(90 * 86400, abs=60)), (None, None)):
        app = application("memory://", url_of(server), result_expires=expires)
        app.backend.store_result(f"for-{expires}", 1, states.SUCCESS)
        assert ttl_of(app.backend, f"celery-task-meta-for-{expires}") == ttl


def test_the_count_of_a_chord_expires(server: Memcached) -> None:
    app = application("memory://", url_of(server), result_expires=70)
    begun = chord((app.tasks["add"].s(n, n) for n in range(2)), app.tasks["total"].s()).delay()
    assert begun.parent is not None
    assert ttl_of(app.backend, f"chord-unlock-{begun.parent.id}") == pytest.approx(70, abs=5)


def test_a_prefix_of_its_own(server: Memcached) -> None:
    options = {"global_keyprefix": "site"}
    app = application("memory://", url_of(server), result_backend_transport_options=options)
    app.backend.store_result("id", 1, states.SUCCESS)
    assert server.holds("site_celery-task-meta-id")


def test_nobody_waits_for_a_chord_whose_count_is_gone(app: Celery, backend: PinyonBackend) -> None:
    begun = chord((app.tasks["add"].s(n, n) for n in range(2)), app.tasks["total"].s()).delay()
    assert begun.parent is not None
    assert backend.client.delete(f"chord-unlock-{begun.parent.id}")
    with working_here(app), pytest.raises(ChordError, match="the count of"):
        begun.get(**SOON)


def test_the_backend_by_its_class(server: Memcached, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMCACHE_SERVERS", server.address)
    app = application("memory://", "pinyon.frameworks.celery:PinyonBackend")
    app.backend.store_result("id", 1, states.SUCCESS)
    assert server.holds("celery-task-meta-id")


def test_a_socket_of_unix(unix_memcached: Memcached) -> None:
    app = application("memory://", f"pinyon+memcached://{unix_memcached.path}")
    app.backend.store_result("id", 1, states.SUCCESS)
    assert app.backend.get_task_meta("id")["result"] == 1
    assert app.backend.as_uri() == f"pinyon+memcached://{unix_memcached.path}/"


def test_a_password_is_used_and_not_shown(guarded_memcached: GuardedMemcached) -> None:
    url = f"pinyon+memcached://app:{PASSWORD.replace('-', '%2D')}@{guarded_memcached.address}/"
    backend = application("memory://", url).backend
    backend.store_result("id", 1, states.SUCCESS)
    assert backend.get_task_meta("id")["result"] == 1
    assert backend.as_uri() == f"pinyon+memcached://{guarded_memcached.address}/"
    assert backend.as_uri(include_password=True) == url
    with pytest.raises(pinyon.InvalidServers) as raised:
        application("memory://", f"pinyon+memcached://app:{PASSWORD}@host:port").backend.get("key")
    assert PASSWORD not in str(raised.value)


def test_a_backend_can_be_pickled(app: Celery, backend: PinyonBackend) -> None:
    app.set_current()
    backend.store_result("id", 1, states.SUCCESS)
    other = pickle.loads(pickle.dumps(backend))
    assert other.get_task_meta("id")["result"] == 1
    assert (other.as_uri(), other.expires) == (backend.as_uri(), backend.expires)


def test_all_threads_share_one_backend(app: Celery, backend: PinyonBackend) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as other_thread:
        assert other_thread.submit(lambda: app.backend).result() is backend


def test_a_failure_is_raised_or_tried_again(own_server: Memcached) -> None:
    app = application("memory://", url_of(own_server))
    own_server.stop()
    with pytest.raises(pinyon.Error):
        app.backend.store_result("id", 1, states.SUCCESS)

    class Patient(PinyonBackend):
        def on_backend_retryable_error(self, exc: Exception) -> None:
            if own_server.process is None:
                own_server.restart()

    app = application("memory://", url_of(own_server), result_backend_always_retry=True)
    backend = Patient(app, url=url_of(own_server).partition("+")[2])
    backend.store_result("id", 1, states.SUCCESS)
    assert backend.get_task_meta("id")["result"] == 1


def test_no_other_server_takes_the_results_of_one_that_is_down(server: Memcached) -> None:
    """A caller that waits for results may not know that the server is down."""
    backend = application("memory://", f"pinyon+memcached://{server.address};127.0.0.1:1/").backend
    stored: dict[str, bool] = {}
    for each in map(str, range(20)):
        try:
            backend.store_result(each, 1, states.SUCCESS)
            stored[each] = True
        except pinyon.Error:
            stored[each] = False
    assert set(stored.values()) == {True, False}
    assert {each: server.holds(f"celery-task-meta-{each}") for each in stored} == stored


def test_a_result_is_never_lost_in_silence(server: Memcached) -> None:
    app = application("memory://", "pinyon+memcached://127.0.0.1:1/")
    app.conf.cache_backend_options["on_failure"] = "miss"
    with pytest.raises(BackendStoreError, match="no server accepted it"):
        app.backend.store_result("id", 1, states.SUCCESS)


@pytest.mark.parametrize("options", [{"time_out": 1}, {"timeout": -1}])
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    app = application("memory://", "pinyon+memcached://127.0.0.1:1/")
    app.conf.cache_backend_options = options
    with pytest.raises((TypeError, pinyon.UsageError)):
        app.backend.get("key")
