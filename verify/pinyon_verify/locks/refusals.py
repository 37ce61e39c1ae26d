"""Faults of a server that is there and answers "not now"."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .history import now
from .resp import ServerSaid

if TYPE_CHECKING:
    from .server import Server
    from .world import World

#: A script that takes as many milliseconds as it is told.
_LONG_SCRIPT = """
local function milliseconds() local time = redis.call("TIME") return time[1] * 1000 + time[2] / 1000 end
local ends = milliseconds() + ARGV[1]
repeat until milliseconds() > ends
"""
#: How often to look whether a snapshot is over, in seconds, and how often at most.
LOOK, LOOKS = 0.01, 1000
#: The keys that a server loads before it answers, in a database of their own, and the options that make it take seconds.
LOADED = 5000
SLOW_TO_LOAD = (
    *("--enable-debug-command", "yes", "--key-load-delay", "200"),
    *("--loading-process-events-interval-bytes", "1024"),
)


def run_script(world: World) -> None:
    """Somebody's script takes long: ``BUSY``."""
    with _refusal(world) as seconds:
        world.server.ask("EVAL", _LONG_SCRIPT, 0, int(seconds * 1000))


def miss_replicas(world: World) -> None:
    """There are too few replicas: ``NOREPLICAS``."""
    with _refusal(world) as seconds:
        world.server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
        time.sleep(seconds)
        world.server.ask("CONFIG", "SET", "min-replicas-to-write", 0)


def fail_to_save(world: World) -> None:
    """The server cannot write its snapshot: ``MISCONF``."""
    server = _single(world)
    snapshot = server.data(server.generation) / "dump.rdb"
    with _refusal(world) as seconds:
        # A snapshot does not replace a folder.
        snapshot.unlink(missing_ok=True)
        snapshot.mkdir()
        _save(server, "err")
        time.sleep(seconds)
        snapshot.rmdir()
        _save(server, "ok")


def prepare_loading(world: World) -> None:
    """Give the server so much that it needs seconds to load it."""
    server = _single(world)
    connection = server.connect()
    connection("SELECT", 1)
    connection("DEBUG", "POPULATE", LOADED)
    connection("SAVE")
    connection.close()


def restart_while_loading(world: World) -> None:
    """The server is there again long before it has its data: ``LOADING``."""
    before = now()
    world.server.kill()
    world.server.start()
    world.fault("restart", before)


def _save(server: Server, status: str) -> None:
    """Write snapshots until one ends like this."""
    for _ in range(LOOKS):
        with contextlib.suppress(ServerSaid):
            server.ask("BGSAVE")
        time.sleep(LOOK)
        information = server.ask("INFO", "persistence")
        assert isinstance(information, bytes)
        if f"rdb_last_bgsave_status:{status}\r\n".encode() in information:
            return
    raise RuntimeError(f"no snapshot ended with the status {status}")


@contextmanager
def _refusal(world: World) -> Iterator[float]:
    """Record a time in which the server serves nobody. Yields how many seconds it is to take."""
    before = now()
    yield world.random.uniform(0.3, 3.0) * world.cell.clients[0].ttl
    world.fault("pause", before)


def _single(world: World) -> Server:
    server = world.server
    assert not hasattr(server, "servers"), "these cells have one server"
    return server
