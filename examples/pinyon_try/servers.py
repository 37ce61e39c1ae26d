"""Starts memcached and Redis on Unix sockets in a folder of their own, and ends them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

START_SECONDS = 30


class CannotStart(Exception):
    """A server is not installed, or does not answer."""


class Server:
    """One server process that keeps nothing on disk.

    Args:
        program: ``memcached`` or ``redis-server``.
        path: the Unix socket to listen on.
    """

    def __init__(self, program: str, path: Path) -> None:
        self.path = path
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process that runs now."""
        if self._process is None:
            raise CannotStart(f"{self._program} was not started")
        return self._process.pid

    def start(self) -> None:
        """Start it. Returns when it accepts connections.

        Raises:
            CannotStart: it is not installed, or does not answer.
        """
        executable = shutil.which(self._program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
        if executable is None:
            raise CannotStart(f"{self._program} is not installed: apt-get install memcached redis-server")
        # A server that was killed leaves its socket behind.
        self.path.unlink(missing_ok=True)
        arguments = [executable, *self._arguments()]
        self._process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + START_SECONDS
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise CannotStart(f"{self._program} does not start; try: {' '.join(arguments)}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it, as the kernel does when memory runs out."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Stop it (``SIGSTOP``), or let it go on (``SIGCONT``)."""
        os.kill(self.pid, number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _arguments(self) -> list[str]:
        if self._program == "memcached":
            return ["-s", str(self.path), "-t", "1", "-m", "64", "-u", pwd.getpwuid(os.getuid()).pw_name]
        return ["--port", "0", "--unixsocket", str(self.path), "--save", "", "--appendonly", "no"]

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.path))
            except OSError:
                return False
            return True
