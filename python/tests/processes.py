"""Programs in separate processes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path


def what_it_prints(program: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextlib.contextmanager
def serving_web(
    command: list[str | Path], visit: Callable[[], object], *, folder: Path, environment: Mapping[str, str]
) -> Iterator[None]:
    """Runs a web server, from when it can be visited to when it has ended as it was told to."""
    process = subprocess.Popen(command, cwd=folder, env=environment)
    try:
        give_up = time.monotonic() + 60
        while True:
            assert process.poll() is None
            with contextlib.suppress(urllib.error.URLError):
                visit()
                break
            assert time.monotonic() < give_up
            time.sleep(0.05)
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()


def wait_until_asleep(process: subprocess.Popen[str]) -> None:
    """Returns when the first thread of a process waits for something: a signal meets it there, and not at work."""
    until = time.monotonic() + 60
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < until, "it is always at work"
        time.sleep(0.005)
