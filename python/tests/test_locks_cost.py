"""The cost of locks on the server, by its own count: two commands per cycle, and no needless wake-ups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from models import Model, every_model
from servers import Redis

import pinyon

LocksOn = Callable[..., Any]

CYCLES = 200
#: The commands inside the functions for a lock without contention.
INSIDE = {"exists", "incr", "psetex", "get", "mget", "del"}


@pytest.mark.parametrize("workers", [1, 10])
@pytest.mark.parametrize("names", [1, 10])
@every_model
async def test_a_cycle_is_two_commands(
    model: Model, names: int, workers: int, own_redis: Redis, locks_on: LocksOn
) -> None:
    locks = locks_on(own_redis)
    wanted = [f"name {number}" for number in range(names)]

    async def work() -> None:
        for _ in range(CYCLES // workers):
            async with locks.lock(*wanted, timeout=20):
                pass

    async with locks.lock("warm up"):
        pass
    own_redis.ask("CONFIG", "RESETSTAT")
    assert await model.gather(work() for _ in range(workers)) == [None] * workers
    counts = own_redis.calls()
    assert counts.pop("fcall") == 2 * CYCLES
    assert set(counts) <= INSIDE | {"config|resetstat"}


@every_model
async def test_among_clients_a_hand_over_is_two_commands_and_one_push(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    """A waiter asks once, is told once, and releases once."""
    clients = [locks_on(own_redis) for _ in range(4)]

    async def work(client: Any) -> int:
        for _ in range(25):
            async with client.lock("a", timeout=20):
                pass
        return 1

    for client in clients:
        async with client.lock("warm up"):
            pass
    own_redis.ask("CONFIG", "RESETSTAT")
    assert await model.gather(work(client) for client in clients) == [1] * 4
    counts = own_redis.calls()
    assert counts["fcall"] == 2 * 100
    assert counts.get("publish", 0) <= 100


def switches(threads: Iterable[threading.Thread]) -> int:
    """How often these threads have gone to sleep so far."""
    statuses = [Path(f"/proc/self/task/{thread.native_id}/status").read_text() for thread in threads]
    return sum(int(status.split("voluntary_ctxt_switches:")[1].split()[0]) for status in statuses)


def test_threads_that_wait_sleep(redis: Redis) -> None:
    """One of them receives for all, and looks for signals. Twenty that looked would wake 600 times in three seconds."""
    with pinyon.Locks(redis.url, timeout=60) as locks:
        held = locks.lock("a")
        held.acquire()

        def wait() -> None:
            with locks.lock("a"):
                pass

        threads = [threading.Thread(target=wait) for _ in range(20)]
        for thread in threads:
            thread.start()
        # Nothing tells when a thread has joined its client's line.
        time.sleep(1)
        before = switches(threads)
        time.sleep(3)
        during = switches(threads) - before
        held.release()
        for thread in threads:
            thread.join()
    assert during < 200
