"""A redis-server for the benchmark: starts it on a free port, pins it, reads its statistics, and ends it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from ..placement import pinned
from ..servers import ATTEMPTS, LOCAL_HOST, START_SECONDS, ServerError, end_process, free_port

PROGRAM = "redis-server"
#: A lock that was left behind still has more than this part of its ttl; anything else that stays is shorter-lived.
LEFT = 0.1


@dataclass(frozen=True)
class Statistics:
    """The server's counts since its start: calls and microseconds by command, and reads from sockets.

    Commands called by scripts count like those sent by clients, and their time also counts for the script.
    """

    calls: dict[str, int]
    microseconds: dict[str, int]
    reads: int

    def since(self, earlier: Statistics) -> Statistics:
        """Returns the counts since then, without those of asking."""
        calls = {name: count - earlier.calls.get(name, 0) for name, count in self.calls.items() if name != "info"}
        spent = {name: self.microseconds[name] - earlier.microseconds.get(name, 0) for name in calls}
        used = {name: count for name, count in calls.items() if count}
        return Statistics(used, {name: spent[name] for name in used}, self.reads - earlier.reads - 1)

    @staticmethod
    def sum(each: list[Statistics]) -> Statistics:
        """Returns the counts of several servers together."""
        calls: Counter[str] = Counter()
        microseconds: Counter[str] = Counter()
        for one in each:
            calls.update(one.calls)
            microseconds.update(one.microseconds)
        return Statistics(dict(calls), dict(microseconds), sum(one.reads for one in each))


@dataclass(frozen=True)
class LockServer:
    """A running Redis on some cores (None: anywhere), and a connection for questions."""

    port: int
    process: subprocess.Popen[bytes]
    connection: Any
    cores: set[int] | None = None

    @property
    def name(self) -> str:
        """The server's address in the contestants' notation."""
        return f"{LOCAL_HOST}:{self.port}"

    def version(self) -> str:
        """Returns the server's version."""
        return str(self.connection.info("server")["redis_version"])

    def statistics(self) -> Statistics:
        """Returns the counts so far."""
        answer = self.connection.info("stats", "commandstats")
        commands = {name[8:]: each for name, each in answer.items() if name.startswith("cmdstat_")}
        calls = {name: int(each["calls"]) for name, each in commands.items()}
        microseconds = {name: int(each["usec"]) for name, each in commands.items()}
        return Statistics(calls, microseconds, int(answer["total_reads_processed"]))

    def reset(self) -> None:
        """Empties the server and resets its counters."""
        self.connection.flushall()
        self.connection.config_resetstat()

    def locks_left(self, ttl: int) -> list[str]:
        """Returns the keys that still have much of this ttl, in seconds, as a workload's locks have."""
        keys = self.connection.keys()
        return [key.decode(errors="replace") for key in keys if self.connection.pttl(key) > 1000 * ttl * LEFT]


@dataclass(frozen=True)
class LockServers:
    """Several running servers that know nothing of each other."""

    each: tuple[LockServer, ...]

    def statistics(self) -> list[Statistics]:
        """Returns the counts of each so far."""
        return [server.statistics() for server in self.each]

    def work_since(self, earlier: list[Statistics]) -> Statistics:
        """Returns what all did together since then."""
        return Statistics.sum([now.since(before) for now, before in zip(self.statistics(), earlier, strict=True)])

    def reset(self) -> None:
        """Empties the servers and resets their counters."""
        for server in self.each:
            server.reset()

    def locks_left(self, ttl: int) -> list[str]:
        """Returns the keys that still have much of this ttl, in seconds, as a workload's locks have."""
        return [key for server in self.each for key in server.locks_left(ttl)]


@contextmanager
def start_lock_servers(count: int, cores: set[int] | None) -> Iterator[LockServers]:
    """Runs several servers, and ends them at the end of the block."""
    with ExitStack() as stack:
        yield LockServers(tuple(stack.enter_context(start_lock_server(cores)) for _ in range(count)))


@contextmanager
def start_lock_server(cores: set[int] | None) -> Iterator[LockServer]:
    """Runs a redis-server without persistence on these cores (None: anywhere), and ends it at the end of the block."""
    binary = shutil.which(PROGRAM)
    if binary is None:
        raise ServerError(f"{PROGRAM} is not installed: apt-get install {PROGRAM}")
    with tempfile.TemporaryDirectory(prefix="pinyon-redis-") as folder:
        for _ in range(ATTEMPTS):
            port = free_port()
            with pinned(cores):
                process = subprocess.Popen([binary, *_arguments(port, folder)], stdout=subprocess.DEVNULL)
            try:
                connection = _connect(process, port)
                if connection is None:
                    continue
                with connection:
                    yield LockServer(port, process, connection, cores)
                return
            finally:
                end_process(process)
    raise ServerError(f"{PROGRAM} ended {ATTEMPTS} times before it answered; try: {PROGRAM} --port 0")


def _arguments(port: int, folder: str) -> list[str]:
    words = f"--port {port} --bind {LOCAL_HOST} --appendonly no --daemonize no --loglevel warning".split()
    return [*words, "--save", "", "--dir", folder]


def _connect(process: subprocess.Popen[bytes], port: int) -> Any | None:
    """Returns a connection as soon as Redis answers, or None if it ended because the port was taken."""
    client = redis.Redis(LOCAL_HOST, port, socket_timeout=START_SECONDS)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            return None
        try:
            client.ping()
            return client
        except redis.ConnectionError:
            time.sleep(0.01)
    raise ServerError(f"{PROGRAM} does not answer on port {port} after {START_SECONDS} seconds")
