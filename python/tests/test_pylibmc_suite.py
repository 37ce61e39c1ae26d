"""pylibmc's own tests, run on Pinyon's module."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import Memcached

HERE = Path(__file__).parent
DIFFERENCES = HERE / "pylibmc_differences.txt"

#: The number of tests. Modules that cannot be imported count as one.
TESTS = 44


@pytest.fixture(scope="module")
def sources(repository: Path) -> Path:
    found = [path for path in (repository / ".venv" / "suites").glob("pylibmc-*") if path.is_dir()]
    assert len(found) == 1, "make setup fetches pylibmc's sources"
    return found[0]


@pytest.fixture(scope="module")
def outcomes(sources: Path, memcached: Memcached, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcome of each test."""
    written = tmp_path_factory.mktemp("pylibmc") / "outcomes.json"
    environment = {
        **os.environ,
        "MEMCACHED_HOST": memcached.host,
        "MEMCACHED_PORT": str(memcached.port),
        "PYLIBMC_SOURCES": str(sources),
        "PYLIBMC_OUTCOMES": str(written),
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    plugins = ["-p", "pylibmc_suite", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options = ["-c", os.devnull, "--rootdir", str(sources), "--continue-on-collection-errors", "-q"]
    command = [sys.executable, "-m", "pytest", *plugins, *options, "tests"]
    done = subprocess.run(
        command, cwd=sources, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert written.exists(), done.stdout + done.stderr
    return json.loads(written.read_text())


def differences() -> dict[str, str]:
    """The tests that do not pass, with the reasons."""
    entries = re.findall(r"^(\S.*)\n((?:    .+\n)+)", DIFFERENCES.read_text(), re.MULTILINE)
    return {name: " ".join(reason.split()) for name, reason in entries if not name.startswith("#")}


def test_all_tests_of_pylibmc_have_run(outcomes: dict[str, str]) -> None:
    assert len(outcomes) == TESTS
    assert sum(name.startswith("::examples/") for name in outcomes) == 5


def test_they_pass_but_for_those_that_are_listed(outcomes: dict[str, str]) -> None:
    failed = {name: outcome for name, outcome in outcomes.items() if outcome != "passed"}
    assert {name: outcome for name, outcome in failed.items() if name not in differences()} == {}


def test_none_that_is_listed_passes(outcomes: dict[str, str]) -> None:
    assert [name for name in differences() if outcomes.get(name, "passed") == "passed"] == []


def test_every_difference_has_a_reason() -> None:
    assert len(differences()) == 2
    assert all(len(reason) > 30 for reason in differences().values())
