"""Faults of servers that say "not now": they answer every request with an error for a while, and lose nothing."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from .group import wait
from .quorum_faults import majority, minority
from .server import Server
from .world import World

#: What servers of these cells are started with.
OPTIONS = (
    *("--busy-reply-threshold", "20", "--enable-debug-command", "yes"),
    *("--key-load-delay", "250", "--loading-process-events-interval-bytes", "1024"),
)
#: How many keys take half a second to load.
MANY = 1500

#: Lets a server refuse requests while it is entered.
Refusing = Callable[[Server], AbstractContextManager[None]]


@contextlib.contextmanager
def busy(server: Server) -> Iterator[None]:
    """A script runs and does not end: BUSY."""
    with contextlib.closing(server.connect()) as connection:
        connection.send("EVAL", "while true do end", 0)
        yield
        wait(lambda: server.ask("SCRIPT", "KILL") == "OK")
        connection.read()


@contextlib.contextmanager
def loading(server: Server) -> Iterator[None]:
    """It reads its data anew: LOADING."""
    with contextlib.closing(server.connect(60.0)) as connection:
        connection("SELECT", 1)
        connection("DEBUG", "POPULATE", MANY)
        connection.send("DEBUG", "RELOAD")
        yield
        connection.read()
        connection("FLUSHDB")


@contextlib.contextmanager
def unsaved(server: Server) -> Iterator[None]:
    """It cannot write its snapshot: MISCONF."""
    target = server.data(server.generation) / "dump.rdb"
    target.unlink(missing_ok=True)
    (target / "obstacle").mkdir(parents=True)
    server.ask("CONFIG", "SET", "save", "3600 1000000")
    _save(server, b"err")
    yield
    shutil.rmtree(target)
    _save(server, b"ok")
    server.ask("CONFIG", "SET", "save", "")


def _save(server: Server, outcome: bytes) -> None:
    def is_so() -> bool:
        told = server.ask("INFO", "persistence")
        return isinstance(told, bytes) and b"rdb_last_bgsave_status:" + outcome in told

    server.ask("BGSAVE")
    wait(is_so)


@contextlib.contextmanager
def without_replicas(server: Server) -> Iterator[None]:
    """Too few replicas are connected: NOREPLICAS."""
    server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    yield
    server.ask("CONFIG", "SET", "min-replicas-to-write", 0)


ALL: tuple[Refusing, ...] = (busy, loading, unsaved, without_replicas)


def run_long_script(world: World) -> None:
    _refuse(world, "pause", _one(world), busy)


def read_again(world: World) -> None:
    _refuse(world, "pause", _one(world), loading)


def fail_to_save(world: World) -> None:
    _refuse(world, "pause", _one(world), unsaved)


def lack_replicas(world: World) -> None:
    _refuse(world, "pause", _one(world), without_replicas)


def restart_slowly(world: World) -> None:
    """It returns with the data of a moment ago, which it takes a while to load."""
    (server,) = _one(world)
    with world.recorded("restart"):
        with contextlib.closing(server.connect()) as connection:
            connection("SELECT", 1)
            connection("DEBUG", "POPULATE", MANY)
            connection("SAVE")
        server.kill()
        time.sleep(world.random.choice([0.0, 0.1, 1.0]))
        server.start()
        with contextlib.closing(server.connect()) as connection:
            connection("SELECT", 1)
            connection("FLUSHDB")


def refuse_by_minority(world: World) -> None:
    _refuse(world, "minority", minority(world), world.random.choice(ALL))


def refuse_by_majority(world: World) -> None:
    _refuse(world, "pause", majority(world), world.random.choice(ALL))


def _refuse(world: World, kind: str, servers: Sequence[Server], refusing: Refusing) -> None:
    with world.recorded(kind), contextlib.ExitStack() as stack:
        for server in servers:
            stack.enter_context(refusing(server))
        time.sleep(world.random.uniform(0.2, 1.2))


def _one(world: World) -> list[Server]:
    assert isinstance(world.server, Server)
    return [world.server]
