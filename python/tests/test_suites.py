"""How `make test` runs a suite: what it keeps of it, and that one which hangs is ended and tells where."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "suite.py"
HANGS = "import faulthandler, time; faulthandler.enable(); time.sleep(600)"


@pytest.fixture
def suite(tmp_path):
    """Runs a line of Python as a suite; gives the exit status, and name and text of the one file that is kept."""
    tool = tmp_path / "tools" / TOOL.name
    tool.parent.mkdir()
    shutil.copy(TOOL, tool)

    def run(line, minutes="10"):
        command = [sys.executable, str(tool), "mine", sys.executable, "-c", line]
        status = subprocess.run(command, env={**os.environ, "SUITE_MINUTES": minutes}, check=False).returncode
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
