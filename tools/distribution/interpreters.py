"""Finds the Python interpreters that a distribution has wheels for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

#: Those whose names are looked for; a `t` has no global lock.
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
PROBE = "import sys; sys.implementation.name == 'cpython' and print(sys.executable, end='')"
TAG = "import sysconfig; print('cp' + sysconfig.get_config_var('SOABI').split('-')[1], end='')"


def find_interpreters() -> dict[str, Path]:
    """Returns the first working CPython of each version on PATH, by the tag that its wheels have, such as "cp311"."""
    found = (_first_that_runs(f"python{version}") for version in VERSIONS)
    return {_printed(path, TAG): path for path in found if path is not None}


def _first_that_runs(name: str) -> Path | None:
    """Every folder is looked into: the first may have a wrapper that starts nothing, as pyenv's are."""
    candidates = (Path(folder) / name for folder in os.environ.get("PATH", "").split(os.pathsep))
    for candidate in filter(Path.is_file, candidates):
        path = _printed(candidate, PROBE)
        if path:
            return Path(path)
    return None


def _printed(python: Path, program: str) -> str:
    """Returns what a program prints; nothing when it fails."""
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
