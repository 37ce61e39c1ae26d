"""pymemcache's own tests, run on Pinyon's shim."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from pymemcache_suite import differences
from servers import Memcached

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SUITE = Path(sys.prefix) / "suites/pymemcache-4.0.0/pymemcache/test"


def test_the_suite_passes_but_for_what_is_documented(own_server: Memcached) -> None:
    """Fails if a test listed with a difference passes, or if any other test fails.

    Benchmarks are left out. pymemcache itself skips its only test of TLS, because its certificates are not
    distributed.
    """
    paths = os.pathsep.join([str(HERE), str(REPOSITORY / "scenarios")])
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "pymemcache_suite", "-c", os.devnull, f"--rootdir={SUITE}", "-q"),
            *("-p", "no:cacheprovider", "--timeout=30", "-m", "not benchmark", f"--ignore={SUITE}/test_compression.py"),
            *("--server", own_server.host, "--port", str(own_server.port), str(SUITE)),
        ],
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    counts = {outcome: int(count) for count, outcome in re.findall(r"(\d+) (\w+)", run.stdout.splitlines()[-1])}
    assert counts["passed"] >= 640, counts
    assert counts["xfailed"] == sum(map(len, differences().values())), counts


def test_every_difference_that_a_test_shows_is_documented() -> None:
    page = (REPOSITORY / "docs" / "from-pymemcache.md").read_text()
    documented = re.findall(r"^\| (.+?) \|", page, re.MULTILINE)
    assert set(differences()) <= set(documented)
