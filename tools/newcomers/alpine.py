"""What a newcomer types on Alpine: a wheel of `make dist` is installed into a Python, and a cache and a lock work.

Alpine's own package server is not asked. Its files come from PyPI, in the image of a virtual machine, which is unpacked
and not started. There is no Python among them, so the one that is built for musl stands in for it, and this machine's
servers for Alpine's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from artefacts import wheels_of
from musl import PYTHON, TAG, make_musl_python
from newer.folders import CannotInstall
from platforms import MUSL

from .debian import LISTEN, programs
from .place import WORK, Place

REQUIREMENTS = Path(__file__).with_name("requirements-alpine.txt")
#: This machine's, on the network of the play.
SERVERS = f"memcached -d -u nobody && redis-server --daemonize yes --save '' >/dev/null; {LISTEN}"
INTERPRETER = Path("/usr/local")


@dataclass(frozen=True)
class Alpine:
    """Alpine's files in a folder."""

    path: Path

    def install(self) -> None:
        """Makes the folder, unless it is there. Raises `CannotInstall`."""
        listed = self.path / "installed"
        if listed.exists() and listed.read_text() == REQUIREMENTS.read_text():
            return
        for program in ("qemu-img", "debugfs"):
            if not shutil.which(program):
                raise CannotInstall(f"Alpine in a folder needs {program}; make newcomers installs it")
        unfinished, fetched = self.path.with_suffix(".unfinished"), self.path.with_suffix(".fetched")
        for remains in (unfinished, fetched, self.path):
            shutil.rmtree(remains, ignore_errors=True)
        unfinished.mkdir(parents=True)
        self._fetch(fetched)
        (image,) = fetched.glob("*/images/*.qcow2")
        disk = fetched / "disk"
        for command in (
            ["qemu-img", "convert", "-O", "raw", str(image), str(disk)],
            ["debugfs", "-R", f"rdump / {unfinished}", str(disk)],
        ):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        shutil.rmtree(fetched)
        (unfinished / "installed").write_text(REQUIREMENTS.read_text())
        unfinished.rename(self.path)

    @staticmethod
    def _fetch(folder: Path) -> None:
        """Unpacks the wheel with the image into a folder. Raises `CannotInstall`."""
        tools = WORK / "pip"
        subprocess.run([sys.executable, "-m", "venv", tools], check=True)
        words = [str(tools / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run([*words, "--target", str(folder), "--requirement", str(REQUIREMENTS)], check=False)
        if done.returncode != 0:
            raise CannotInstall("pip could not fetch the image with Alpine's files")


def play() -> Iterator[tuple[str, str]]:
    """Plays the lines. Yields each with its prompt, and what it prints. Raises `CalledProcessError` if one fails."""
    wheels = [wheel for wheel in wheels_of(MUSL) if f"-{TAG}-" in wheel.name]
    if len(wheels) != 1:
        raise CannotInstall("there is no wheel for musl in dist: run make dist PLATFORMS=musl before")
    interpreter = make_musl_python().parent.parent
    place = Place("newcomer-alpine", Alpine(WORK / "alpine"), shell="sh")
    home = place.path / "changes" / "root"
    home.mkdir(mode=0o700)
    shutil.copy(wheels[0], home)
    shutil.copytree(interpreter, place.path / "changes" / INTERPRETER.relative_to("/"), symlinks=True)
    lines = [
        "cat /etc/alpine-release",
        f"{PYTHON} -m venv .venv",
        f".venv/bin/pip install --no-index {wheels[0].name}",
        *(f".venv/bin/python <<'END'\n{program}END" for program in programs()),
    ]
    try:
        for line in lines:
            yield f"# {line}", place.run(line, folder="/root", network=False, outside=SERVERS)
    finally:
        place.remove()
