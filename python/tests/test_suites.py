"""How `make test` runs a suite: what it keeps of it, and that one which hangs is ended and tells where."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from waiting import wait_until

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "suite.py"
HANGS = "import faulthandler, time; faulthandler.enable(); time.sleep(600)"


@pytest.fixture
def command(tmp_path):
    """What runs a line of Python, which is to be added, as a suite of a checkout of its own."""
    tool = tmp_path / "tools" / TOOL.name
    tool.parent.mkdir()
    shutil.copy(TOOL, tool)
    return [sys.executable, str(tool), "mine", sys.executable, "-c"]


@pytest.fixture
def suite(tmp_path, command):
    """Runs a line of Python as a suite; gives the exit status, and name and text of the one file that is kept."""

    def run(line, minutes="10"):
        limit = {**os.environ, "SUITE_MINUTES": minutes}
        status = subprocess.run([*command, line], env=limit, check=False).returncode
        (kept,) = (tmp_path / "target" / "suites").iterdir()
        return status, kept.name, kept.read_text()

    return run


def test_what_a_suite_prints_is_kept(suite):
    assert suite("print('passed')") == (0, "mine.log", "passed\n")


def test_a_suite_that_fails_is_kept_under_another_name(suite):
    assert suite("print('one failed'); raise SystemExit(3)") == (1, "mine.failed", "one failed\n")


def test_a_suite_that_hangs_is_ended_and_tells_where(suite):
    status, name, text = suite(HANGS, minutes="0.05")
    assert (status, name) == (1, "mine.failed")
    assert 'File "<string>", line 1' in text
    running = text.partition("did not end within 0.05 minutes")[2]
    assert "time.sleep(600)" in running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_suite_ends_with_what_runs_it(command, tmp_path, number):
    suite = tmp_path / "suite"
    line = f"import os, pathlib, time; pathlib.Path({str(suite)!r}).write_text(str(os.getpid()) + '.'); time.sleep(600)"
    with subprocess.Popen([*command, line], stderr=subprocess.DEVNULL) as runs:
        wait_until(lambda: suite.exists() and suite.read_text().endswith("."))
        runs.send_signal(number)
        assert runs.wait(60) != 0
    assert not pathlib.Path("/proc", suite.read_text().rstrip(".")).exists()
