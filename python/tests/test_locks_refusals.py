"""Servers that answer "not now": releases are kept, and requests wait within their timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from models import Model, every_model
from servers import Redis

import pinyon

LocksOn = Callable[..., Any]
RedisWith = Callable[..., Redis]

#: Seconds that no test waits for.
LONG = 600


@every_model
async def test_a_release_that_is_refused_frees_its_name_once_the_trouble_is_over(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    """A replica drops out while the lock is held, and comes back."""
    locks = locks_on(own_redis, command_timeout=1)
    with pytest.raises(
        pinyon.ServerError, match=r'NOREPLICAS.*; the release of the lock "x" goes on in the background'
    ):
        async with locks.lock("x", ttl=LONG):
            own_redis.ask("CONFIG", "SET", "min-replicas-to-write", "1")
    own_redis.ask("CONFIG", "SET", "min-replicas-to-write", "0")
    async with locks.lock("x", ttl=LONG, timeout=60) as held:
        assert not held.is_lost


@every_model
async def test_a_refused_release_does_not_replace_the_error_of_the_block(
    model: Model, own_redis: Redis, locks_on: LocksOn
) -> None:
    async def fails() -> None:
        async with locks_on(own_redis, command_timeout=1).lock("x"):
            own_redis.ask("CONFIG", "SET", "min-replicas-to-write", "1")
            raise KeyError("of the block")

    with pytest.raises(KeyError, match="of the block"):
        await fails()


@every_model
async def test_a_long_script_elsewhere_costs_no_lock_its_ttl(model: Model, own_redis: Redis, locks_on: LocksOn) -> None:
    """Four clients take one lock in turn, while one script runs for half a second."""
    own_redis.ask("CONFIG", "SET", "busy-reply-threshold", "50")
    script = threading.Thread(
        target=own_redis.ask, args=("EVAL", "local e = os.clock() + 0.5 while os.clock() < e do end", 0)
    )
    others = [locks_on(own_redis) for _ in range(4)]

    async def contend(locks: Any) -> None:
        more = 20
        while more:
            async with locks.lock("job", ttl=LONG, timeout=60):
                await model.sleep(0.001)
            more -= not script.is_alive()

    tasks = [model.spawn(contend(locks)) for locks in others]
    script.start()
    for task in tasks:
        await model.join(task)
    script.join()


@every_model
async def test_requests_wait_for_a_server_that_loads_its_data(
    model: Model, redis_with: RedisWith, locks_on: LocksOn, tmp_path: Path
) -> None:
    """As when a deployment restarts the server and its clients together."""
    redis = redis_with("--dir", str(tmp_path), "--enable-debug-command", "yes", "--key-load-delay", "500",
                       "--loading-process-events-interval-bytes", "1024")  # fmt: skip
    known = locks_on(redis)
    async with known.lock("before"):
        redis.ask("DEBUG", "POPULATE", "8000")
        redis.ask("SAVE")
    redis.restart()
    assert str(redis.ask("GET", "a")).startswith("LOADING"), "it takes seconds to load"
    for locks in (locks_on(redis), known):
        async with locks.lock("a", timeout=60) as held:
            assert held.token
