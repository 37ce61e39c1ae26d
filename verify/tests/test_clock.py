"""Only the chosen wall clocks are moved."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pinyon_verify.locks.clock import Skipped, WallClock
from pinyon_verify.locks.server import Server

PROGRAM = "import time; print(time.time(), time.monotonic()); input(); print(time.time(), time.monotonic())"


@pytest.fixture
def clock(tmp_path: Path) -> WallClock:
    try:
        return WallClock(tmp_path, offset=600)
    except Skipped as skipped:
        pytest.skip(str(skipped))


def test_a_process_has_the_wrong_time(clock: WallClock) -> None:
    environment = {**os.environ, **clock.environment, "PYTHONUNBUFFERED": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, text=True, **pipes) as process:
        assert process.stdin and process.stdout
        wall, monotonic = map(float, process.stdout.readline().split())
        assert wall - time.time() == pytest.approx(600, abs=60)
        assert monotonic == pytest.approx(time.monotonic(), abs=60)
        clock.move(-3600)
        process.stdin.write("\n")
        process.stdin.flush()
        wall, _ = map(float, process.stdout.readline().split())
        assert wall - time.time() == pytest.approx(-3600, abs=60)


def test_a_server_has_the_wrong_time(clock: WallClock, tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    server.environment = clock.environment
    server.start()
    try:
        seconds = server.ask("TIME")
        assert isinstance(seconds, list)
        assert int(seconds[0]) - time.time() == pytest.approx(600, abs=60)
    finally:
        server.stop()
