"""memcached processes for the benchmark: starts them on free ports, pins them, reads their counters, and ends them."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from .placement import pinned

LOCAL_HOST = "127.0.0.1"
FIRST_PORT = 19122
START_SECONDS = 5.0
MEMORY_MEGABYTES = 256
ATTEMPTS = 5
COUNTERS = ("cmd_get", "cmd_set", "delete_hits", "delete_misses", "incr_hits", "incr_misses", "evictions")


class ServerError(Exception):
    """memcached was not found, did not start, or does not answer correctly."""


@dataclass(frozen=True)
class Server:
    """A running memcached, and a connection for questions."""

    port: int
    process: subprocess.Popen[bytes]
    connection: socket.socket

    @property
    def name(self) -> str:
        """The server's address in the clients' notation."""
        return f"{LOCAL_HOST}:{self.port}"

    def version(self) -> str:
        """Returns what `version` answers."""
        return self._ask(b"version\r\n", b"\r\n").split()[1].decode()

    def counters(self) -> dict[str, int]:
        """Returns the counters in COUNTERS since the server's start."""
        lines = (line.split() for line in self._ask(b"stats\r\n", b"END\r\n").splitlines())
        stats = {line[1].decode(): line[2] for line in lines if len(line) == 3}
        return {name: int(stats[name]) for name in COUNTERS}

    def flush(self) -> None:
        """Empties the server."""
        self._ask(b"flush_all\r\n", b"OK\r\n")

    def store(self, values: dict[str, bytes]) -> None:
        """Stores bytes under their keys, all at once."""
        parts = (b"set %b 0 0 %d noreply\r\n%b\r\n" % (key.encode(), len(values[key]), values[key]) for key in values)
        self._ask(b"".join(parts) + b"mn\r\n", b"MN\r\n")

    def stored(self, key: str) -> bytes | None:
        """Returns the bytes stored under a key, whatever their flags; None if there are none."""
        reply = self._ask(b"get %b\r\n" % key.encode(), b"END\r\n")
        if reply == b"END\r\n":
            return None
        head, body = reply.split(b"\r\n", 1)
        return body[: int(head.split()[3])]

    def _ask(self, request: bytes, end: bytes) -> bytes:
        self.connection.sendall(request)
        reply = b""
        while not reply.endswith(end):
            part = self.connection.recv(1 << 16)
            if not part:
                raise ServerError(f"memcached on port {self.port} closed the connection")
            reply += part
        return reply


@contextmanager
def start_servers(count: int, cores: set[int] | None) -> Iterator[list[Server]]:
    """Runs `count` memcached processes on these cores (None: any), and ends them at the end of the block.

    Their ports are the seed's 19122 and up, if free. Rings hash the port, and which keys share a server should not
    change between runs.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(start_server(cores, FIRST_PORT + number)) for number in range(count)]


@contextmanager
def start_server(
    cores: set[int] | None,
    wanted_port: int = FIRST_PORT,
    options: tuple[str, ...] = (),
) -> Iterator[Server]:
    """Runs one memcached with further options, and ends it at the end of the block."""
    binary = shutil.which("memcached")
    if binary is None:
        raise ServerError("memcached is not installed: apt-get install memcached")
    for attempt in range(ATTEMPTS):
        port = wanted_port if attempt == 0 and is_free(wanted_port) else free_port()
        with pinned(cores):
            process = subprocess.Popen([binary, *_arguments(port), *options], stderr=subprocess.DEVNULL)
        try:
            connection = _connect(process, port)
            if connection is None:
                continue
            with connection:
                yield Server(port, process, connection)
            return
        finally:
            end_process(process)
    arguments = " ".join(_arguments(0))
    raise ServerError(f"memcached ended {ATTEMPTS} times before it answered; try: memcached {arguments}")


def _arguments(port: int) -> list[str]:
    arguments = ["-p", str(port), "-t", "1", "-U", "0", "-m", str(MEMORY_MEGABYTES), "-l", LOCAL_HOST]
    if has_ipv6():
        arguments += ["-l", "::1"]
    if os.geteuid() == 0:
        arguments += ["-u", _unprivileged_user()]
    return arguments


def _unprivileged_user() -> str:
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("memcache", "nobody"):
        if name in known:
            return name
    raise ServerError("memcached does not run as root and there is no user memcache or nobody")


def _connect(process: subprocess.Popen[bytes], port: int) -> socket.socket | None:
    """Returns a connection as soon as memcached answers, or None if it ended because the port was taken."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            return None
        try:
            return socket.create_connection((LOCAL_HOST, port), timeout=START_SECONDS)
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise ServerError(f"memcached does not answer on port {port} after {START_SECONDS} seconds")


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, by force if it does not end in time."""
    process.terminate()
    try:
        process.wait(START_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """Returns a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((LOCAL_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Returns whether the port is free now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCAL_HOST, port))
        except OSError:
            return False
    return True


def has_ipv6() -> bool:
    """Returns whether ::1 can be listened on."""
    if not socket.has_ipv6:
        return False
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True
