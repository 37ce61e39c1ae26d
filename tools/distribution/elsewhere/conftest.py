"""What the tests of every platform use."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

#: How long a server may take to begin.
SECONDS = 60


@pytest.fixture
def memcached() -> Iterator[Path]:
    """The socket of a memcached of this machine."""
    with tempfile.TemporaryDirectory(prefix="pinyon-") as folder:
        socket = Path(folder) / "memcached"
        user = ["-u", "root"] if os.getuid() == 0 else []
        with subprocess.Popen(["memcached", "-s", str(socket), *user]) as process:
            until = time.monotonic() + SECONDS
            while not socket.exists() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            assert socket.exists()
            yield socket
            process.terminate()
