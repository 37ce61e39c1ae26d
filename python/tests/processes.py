"""Programs in separate processes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def what_it_prints(program: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wait_until_asleep(process: subprocess.Popen[str]) -> None:
    """Returns when the first thread of a process waits for something: a signal meets it there, and not at work."""
    until = time.monotonic() + 60
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < until, "it is always at work"
        time.sleep(0.005)
