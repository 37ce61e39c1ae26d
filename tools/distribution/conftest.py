"""What the tests of every platform use: servers of this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: How long a server may take to begin.
SECONDS = 60


@pytest.fixture
def memcached() -> Iterator[Path]:
    """The socket of a memcached of this machine."""
    user = ["-u", "root"] if os.getuid() == 0 else []
    with started("memcached", *user, "-s") as socket:
        yield socket


@pytest.fixture
def redis() -> Iterator[str]:
    """How clients name a Redis of this machine."""
    with started("redis-server", "--port", "0", "--save", "", "--unixsocket") as socket:
        yield f"unix://{socket}"


@contextmanager
def started(*command: str) -> Iterator[Path]:
    """Starts a server on a socket, whose path is its last argument, and yields the path."""
    with tempfile.TemporaryDirectory(prefix="pinyon-") as folder:
        socket = Path(folder) / "socket"
        words = [*command, str(socket)]
        with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL) as process:
            try:
                until = time.monotonic() + SECONDS
                while not socket.exists() and process.poll() is None and time.monotonic() < until:
                    time.sleep(0.01)
                assert socket.exists(), f"{command[0]} has not begun"
                yield socket
            finally:
                process.terminate()
