"""Leaders: what belongs to Python, to processes and to quorums. The scenarios of all languages are played elsewhere."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import gevent
import pytest
from models import MODELS, Model
from servers import Redis
from waiting import SOON

import pinyon
import pinyon.aio
import pinyon.gevent

PATIENCE = 100


def until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.002)


@pytest.fixture
def locks(redis: Redis) -> Any:
    with pinyon.Locks(redis.url, namespace="leaders", command_timeout=20) as locks:
        yield locks


CANDIDATE = """
import sys, pinyon
locks = pinyon.Locks(sys.argv[1], namespace="leaders", ttl=6, command_timeout=20)
leader = locks.leader("a", on_elected=lambda token: print(token, flush=True)).start()
leader.wait()
sys.stdin.read()
"""


def candidate(redis: Redis) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CANDIDATE, redis.url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_when_the_leaders_process_is_killed_another_one_leads_after_its_ttl(redis: Redis, locks: pinyon.Locks) -> None:
    first = candidate(redis)
    assert first.stdout is not None
    token = int(first.stdout.readline())
    second = candidate(redis)
    assert second.stdout is not None
    try:
        until(lambda: locks.waiting("a") == 1)
        status = locks.leader("a").current()
        assert status is not None
        assert status.token == token
        first.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        assert int(second.stdout.readline()) > token
        assert time.monotonic() - killed < 6 + 10, "its ttl, and what a busy machine needs"
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


def test_the_end_of_a_program_ends_its_leaders(redis: Redis, locks: pinyon.Locks) -> None:
    ending = CANDIDATE.replace("sys.stdin.read()", "").replace("on_elected", "on_lost")
    said = subprocess.run([sys.executable, "-c", ending, redis.url], capture_output=True, text=True, timeout=PATIENCE)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.strip().isdigit()
    assert not locks.is_locked("a")


def test_a_forked_child_does_not_go_on(locks: pinyon.Locks) -> None:
    with locks.leader("a") as leader:
        assert leader.wait(PATIENCE)
        child = os.fork()
        if not child:
            os._exit(0 if not leader.is_leader and leader.state == "stopped" and leader.stop(1) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert leader.is_leader


def test_what_makes_no_sense_is_refused(locks: pinyon.Locks) -> None:
    async def work(token: int) -> None: ...

    with pytest.raises(pinyon.UsageError, match=r"pinyon\.aio"):
        locks.leader("a", on_elected=work)
    with pytest.raises(pinyon.UnsupportedType, match="on_lost"):
        locks.leader("a", on_lost=1)  # type: ignore[arg-type]
    with pytest.raises(pinyon.InvalidName):
        locks.leader("")
    with pytest.raises(pinyon.UsageError):
        locks.leader("a", ttl=0)
    with pytest.raises(pinyon.Unpicklable):
        pickle.dumps(locks.leader("a"))
    with locks.leader("a") as leader, pytest.raises(pinyon.UsageError, match="started before"):
        leader.start()


def test_a_callback_may_stop_its_leader_even_before_start_has_returned(
    locks: pinyon.Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[object] = []
    begin = threading.Thread.start

    def begin_and_wait(thread: threading.Thread) -> None:
        begin(thread)
        until(lambda: called)

    monkeypatch.setattr(threading.Thread, "start", begin_and_wait)
    leader = locks.leader("a", on_elected=lambda _: called.append(leader.stop()), on_lost=called.append)
    leader.start()
    until(lambda: leader.state == "stopped")
    assert called[0] is False
    assert len(called) == 2
    assert leader.stop(PATIENCE)


def test_a_long_callback_sees_that_it_leads_no_more(locks: pinyon.Locks) -> None:
    ended = threading.Event()

    def work(_: int) -> None:
        until(lambda: not leader.is_leader)
        ended.set()

    leader = locks.leader("a", on_elected=work)
    with leader:
        assert leader.wait(PATIENCE)
        assert leader.resign()
        assert ended.wait(PATIENCE)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_wait_has_a_timeout(model: Model, redis: Redis) -> None:
    async def scenario() -> None:
        locks = model.locks(redis.url, namespace="leaders", command_timeout=20)
        async with locks.leader("a") as first, locks.leader("a") as second:
            await model.until(lambda: first.is_leader or second.is_leader, SOON)
            other = second if first.is_leader else first
            assert not await other.wait(0.05)
        locks.close()

    model.run(scenario())


def test_a_greenlet_that_is_killed_ends_its_leadership(redis: Redis) -> None:
    locks = pinyon.gevent.Locks(redis.url, namespace="leaders", command_timeout=20)
    lost: list[int] = []
    leader = locks.leader("a", on_lost=lost.append).start()
    assert leader.wait(PATIENCE)
    leader._running.kill()
    assert (len(lost), locks.is_locked("a"), leader.state) == (1, False, "stopped")
    gevent.sleep(0)
    locks.close()


def test_the_coroutine_of_a_leader_is_cancelled_before_on_lost(redis: Redis) -> None:
    said: list[str] = []

    async def work(token: int) -> None:
        said.append("works")
        try:
            await asyncio.sleep(1000)
        finally:
            said.append("ends")

    async def lost(token: int) -> None:
        said.append("lost")

    async def main() -> None:
        locks = pinyon.aio.Locks(redis.url, namespace="leaders", command_timeout=20)
        async with locks.leader("a", on_elected=work, on_lost=lost) as leader:
            assert await leader.wait(PATIENCE)
            while said != ["works"]:
                await asyncio.sleep(0.002)
        assert said == ["works", "ends", "lost"]
        # A task that is cancelled comes to its end, too.
        leader.start()
        assert await leader.wait(PATIENCE)
        assert leader._running is not None
        leader._running.cancel()
        await asyncio.wait([leader._running])
        assert said[3:] in (["works", "ends", "lost"], ["lost"])
        assert not await locks.is_locked("a")
        locks.close()

    asyncio.run(main())


def test_a_coroutine_that_fails_ends_the_leadership(redis: Redis) -> None:
    async def work(token: int) -> None:
        await asyncio.sleep(0)
        raise ValueError("the test wants it")

    async def main() -> None:
        events: list[Any] = []
        locks = pinyon.aio.Locks(redis.url, namespace="leaders", command_timeout=20, on_event=events.append)
        async with locks.leader("a", on_elected=work) as leader:
            while leader.state != "paused":
                await asyncio.sleep(0.002)
            assert not await locks.is_locked("a")
        assert any(
            'on_elected of the leader "a" failed: ValueError: the test wants it' in event.line for event in events
        )
        locks.close()

    asyncio.run(main())
