"""What is in dist can be installed by pip alone, into environments outside the tree, and works there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from artefacts import REPOSITORY, SDISTS, WHEELS
from interpreters import find_interpreters

SMOKE = Path(__file__).with_name("smoke.py")
#: Packages that Pinyon works with, in the versions that its tests use.
PEERS = REPOSITORY / "python" / "requirements-test.txt"
OWN_TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
#: What `make` exports for the tree's own environment.
INHERITED = ("PYO3_PYTHON", "PYTHONPATH", "VIRTUAL_ENV")


def run(*command: str | Path, folder: Path, **variables: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in INHERITED}
    subprocess.run([str(part) for part in command], cwd=folder, env={**environment, **variables}, check=True)


def smoke(python: Path, *packages: str) -> None:
    """Uses what is installed, and looks whether it is as small as it should be."""
    run(python, "-I", SMOKE, *packages, folder=python.parent)
    (library,) = python.parent.parent.rglob("pinyon/_native*.so")
    sections = subprocess.run(
        ["objdump", "--section-headers", str(library)], capture_output=True, text=True, check=True
    )
    assert ".debug_" not in sections.stdout


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_a_wheel_installs_by_itself(wheel: Path, tmp_path: Path) -> None:
    tag = wheel.name.split("-")[3]
    run(find_interpreters()[tag], "-m", "venv", "env", folder=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", wheel, folder=tmp_path)
    smoke(python)
    if tag == OWN_TAG:
        # The pinned versions of other packages are for the interpreter of the tests.
        run(python, "-m", "pip", "install", "--quiet", "-c", PEERS, f"{wheel}[cli]", "gevent", folder=tmp_path)
        smoke(python, "gevent", "rich")


def test_the_source_distribution_installs_with_pip_alone(tmp_path: Path) -> None:
    (sdist,) = SDISTS
    run(sys.executable, "-m", "venv", "env", folder=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", sdist, folder=tmp_path)
    smoke(python)


def test_the_steps_of_the_documentation_lead_from_a_clone_to_an_environment(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "install.md").read_text()
    steps = re.search(r"^```sh\n(git clone (\S+)\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert steps is not None
    here = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{REPOSITORY}.insteadOf",
        "GIT_CONFIG_VALUE_0": steps[2],
    }
    run("bash", "-exc", steps[1], folder=tmp_path, **here)
    smoke(tmp_path / "app" / ".venv" / "bin" / "python")
