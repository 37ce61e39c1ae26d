"""Real memcached processes for the tests."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

#: Below the ports that the system gives to outgoing connections, so that nobody connects to itself.
PORTS = range(20000, 32000)


class Memcached:
    """One memcached process, which can be stopped and started again at the same place.

    Args:
        arguments: further ones for the command line, such as ``"-I", "8m"``.
        path: the unix socket to listen on instead of a port.
        host: the address to listen on.
    """

    def __init__(self, *arguments: str, path: str | None = None, host: str = "127.0.0.1") -> None:
        self.arguments = arguments
        self.path = path
        self.host = host
        self.port = 0 if path else free_port(host)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def start(self) -> Self:
        for _ in range(5):
            self.process = subprocess.Popen(self._command(), stderr=subprocess.DEVNULL)
            if self._answers(self.process):
                return self
            self.stop()
            if not self.path:
                self.port = free_port(self.host)
        raise RuntimeError("memcached does not start")

    def restart(self) -> None:
        """Starts it again where it was, empty."""
        self.stop()
        self.process = subprocess.Popen(self._command(), stderr=subprocess.DEVNULL)
        if not self._answers(self.process):
            raise RuntimeError(f"memcached does not start again at {self.address}")

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def pause(self) -> None:
        """Stops all its threads for a while; they have stopped when this returns."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        while any(") T " not in (thread / "stat").read_text() for thread in threads.iterdir()):
            time.sleep(0.001)

    def resume(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def ask(self, request: bytes, end: bytes) -> bytes:
        """Sends a request on a connection of its own; returns the reply up to and with ``end``."""
        with self._connect() as connection:
            connection.sendall(request)
            reply = b""
            while not reply.endswith(end):
                received = connection.recv(65536)
                if not received:
                    raise ConnectionError(f"memcached closed the connection after {reply!r}")
                reply += received
            return reply

    def flush(self) -> None:
        self.ask(b"flush_all\r\n", b"OK\r\n")

    def holds(self, key: str) -> bool:
        return self.ask(f"get {key}\r\n".encode(), b"END\r\n") != b"END\r\n"

    def statistic(self, name: str) -> int:
        for line in self.ask(b"stats\r\n", b"END\r\n").splitlines():
            words = line.split()
            if len(words) == 3 and words[1] == name.encode():
                return int(words[2])
        raise KeyError(name)

    def connections(self) -> int:
        """How many connections are open, without the one that asks."""
        states = re.findall(rb"^STAT \d+:state (\S+)", self.ask(b"stats conns\r\n", b"END\r\n"), re.MULTILINE)
        return sum(state.strip() != b"conn_listening" for state in states) - 1

    def has_connections(self, count: int, within: float = 2) -> bool:
        """Whether that many connections are open, once the server has noticed what was closed."""
        give_up = time.monotonic() + within
        while self.connections() != count:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.01)
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        place = ["-s", self.path, "-a", "0777"] if self.path else ["-l", self.host, "-p", str(self.port), "-U", "0"]
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        executable = shutil.which("memcached") or "/usr/bin/memcached"
        return [executable, "-t", "2", "-m", "256", *place, *user, *self.arguments]

    def _connect(self) -> socket.socket:
        if self.path:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(5)
            connection.connect(self.path)
            return connection
        return socket.create_connection((self.host, self.port), timeout=5)

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        give_up = time.monotonic() + 10
        while time.monotonic() < give_up and process.poll() is None:
            try:
                self.ask(b"version\r\n", b"\r\n")
            except OSError:
                time.sleep(0.01)
            else:
                return process.poll() is None
        return False


def free_port(host: str = "127.0.0.1") -> int:
    """A port of this host that nobody listens on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        port = random.choice(PORTS)
        with socket.socket(family) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
