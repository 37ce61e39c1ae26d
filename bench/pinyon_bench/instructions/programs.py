"""The programs whose instructions are counted. Each has a core and a server of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..contestant import BENCH_FOLDER, program
from ..servers import START_SECONDS, ServerError, end_process
from .callgrind import count
from .operations import MODELS

MEMCACHED = ("memcached", "-t", "1", "-u", "root", "-s")
REDIS = ("redis-server", "--port", "0", "--save", "", "--appendonly", "no", "--unixsocket")
CORE = program("pinyon-core-instructions")
RUBY = str(BENCH_FOLDER / "ruby" / "instructions.rb")
PERL = str(BENCH_FOLDER / "perl" / "instructions.pl")
PERL_MODELS = ("perl", "perl:coro", "perl:locks")
C = program("pinyon-bench-instructions")
RUBY_MODELS = ("ruby", "ruby:fibers", "ruby:async", "ruby:eventmachine", "ruby:locks")


@dataclass(frozen=True)
class Program:
    """A command, and its server. The server's socket is the last argument of both commands."""

    command: tuple[str, ...]
    server: tuple[str, ...]


def programs() -> list[Program]:
    """Returns the core's program, and one for each concurrency model of each language."""
    python = (sys.executable, "-m", f"{__package__}")
    commands = [(*python, name) for name in MODELS] + [("ruby", RUBY, name) for name in RUBY_MODELS]
    commands += [("perl", PERL, name) for name in PERL_MODELS]
    models = [Program(command, REDIS if "locks" in command[-1] else MEMCACHED) for command in commands]
    return [Program((str(CORE),), MEMCACHED), *models, Program((str(C),), MEMCACHED)]


def count_all() -> dict[str, int]:
    """Returns the instructions of all operations of all programs.

    Client and server share one core, so the server finishes answering before the client continues. As many programs
    run at once as there are cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    unused = iter(cores)
    with ThreadPoolExecutor(len(cores), initializer=lambda: os.sched_setaffinity(0, {next(unused)})) as pool:
        return {name: figure for counted in pool.map(_count, programs()) for name, figure in counted.items()}


def _count(each: Program) -> dict[str, int]:
    with _server(each.server) as address:
        return count([*each.command, address])


@contextmanager
def _server(command: tuple[str, ...]) -> Iterator[str]:
    """Runs a server on a new socket. Yields the socket's path."""
    binary = shutil.which(command[0])
    if binary is None:
        raise ServerError(f"{command[0]} is not installed: apt-get install {command[0]}")
    with tempfile.TemporaryDirectory(prefix="pinyon-") as folder:
        address = str(Path(folder) / "socket")
        process = subprocess.Popen([binary, *command[1:], address], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            _await_connection(command[0], address)
            yield address
        finally:
            end_process(process)


def _await_connection(name: str, address: str) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as probe, suppress(FileNotFoundError, ConnectionRefusedError):
            probe.connect(address)
            return
        time.sleep(0.01)
    raise ServerError(f"{name} does not answer on {address} after {START_SECONDS} seconds")
