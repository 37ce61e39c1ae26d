"""Real memcached processes and their faults."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from ..ports import free_port

#: Seconds a server may take to start.
START_SECONDS = 20.0


class Memcached:
    """A server on a port or a Unix socket."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.port = 0 if path else free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return str(self.path) if self.path else f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it without data, and wait until it answers."""
        place = ["-s", str(self.path), "-a", "0777"] if self.path else ["-l", "127.0.0.1", "-p", str(self.port)]
        user = ["-u", "root"] if os.getuid() == 0 else []
        command = [shutil.which("memcached") or "/usr/bin/memcached", "-U", "0", "-m", "256", "-t", "2", *place, *user]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.01)
        raise RuntimeError(f"memcached does not start at {self.address}")

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def flush(self) -> None:
        with self._connect() as connection:
            connection.sendall(b"flush_all\r\n")
            connection.recv(100)

    @contextlib.contextmanager
    def mute(self) -> Iterator[None]:
        """A program in its place that accepts connections and never answers."""
        self.kill()
        with socket.socket(socket.AF_UNIX if self.path else socket.AF_INET) as listener:
            if self.path:
                self.path.unlink(missing_ok=True)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(str(self.path) if self.path else ("127.0.0.1", self.port))
            listener.listen(128)
            yield
        self.start()

    def _connect(self) -> socket.socket:
        if not self.path:
            return socket.create_connection(("127.0.0.1", self.port), timeout=5)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5)
        connection.connect(str(self.path))
        return connection

    def _answers(self) -> bool:
        try:
            with self._connect() as connection:
                connection.sendall(b"version\r\n")
                return connection.recv(100).startswith(b"VERSION")
        except OSError:
            return False


class Faults:
    """Injects faults into servers, one after the other, chosen by its seed."""

    def __init__(self, servers: list[Memcached], seed: str) -> None:
        self.servers = servers
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._kinds: dict[str, Callable[[Memcached], None]] = {
            "restarted": self._restart,
            "refused": self._refuse,
            "paused": self._pause,
            "stopped": self._stop,
            "silenced": self._silence,
            "emptied": Memcached.flush,
        }

    def one(self) -> None:
        """Inject one fault, then pause."""
        kind = self.random.choice(list(self._kinds))
        self._kinds[kind](self.random.choice(self.servers))
        self.done[kind] += 1
        time.sleep(self.random.uniform(0.1, 1.0))

    def _restart(self, server: Memcached) -> None:
        server.kill()
        server.start()

    def _refuse(self, server: Memcached) -> None:
        server.kill()
        time.sleep(self.random.uniform(0.2, 2.0))
        server.start()

    def _pause(self, server: Memcached) -> None:
        """Stop it for less than any client's timeout."""
        self._stopped_for(server, self.random.uniform(0.05, 0.3))

    def _stop(self, server: Memcached) -> None:
        """Stop it for longer than any client's timeout; afterwards it executes what it received meanwhile."""
        self._stopped_for(server, self.random.uniform(0.7, 2.5))

    def _stopped_for(self, server: Memcached, seconds: float) -> None:
        server.signal(signal.SIGSTOP)
        time.sleep(seconds)
        server.signal(signal.SIGCONT)

    def _silence(self, server: Memcached) -> None:
        with server.mute():
            time.sleep(self.random.uniform(0.5, 2.0))
