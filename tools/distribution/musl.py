"""CPython for musl in a folder, built from Debian's sources, as Debian has packages of it for glibc alone.

Debian's own musl is what it is compiled with, and what loads it: the kernel finds the loader at its usual path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from commands import WORK, said
from newer.folders import CannotInstall

RELEASE = "bookworm"
#: The tag of its wheels.
TAG = "cp311"
PYTHON = "python3.11"
#: pip needs zlib to unpack wheels.
SOURCES = ("zlib", PYTHON)
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
COMPILER = "musl-gcc"


def make_musl_python() -> Path:
    """Builds the interpreter, unless it is there, and returns its path. Raises `CannotInstall`."""
    place = WORK / "musl-python"
    python = place / "bin" / PYTHON
    if python.exists():
        return python
    if not shutil.which(COMPILER):
        raise CannotInstall(f"there is no {COMPILER} (apt-get install musl-tools)")
    building = WORK / "musl-sources"
    for remains in (building, place):
        shutil.rmtree(remains, ignore_errors=True)
    zlib, sources = fetch_sources(building)
    libraries, staged = building / "libraries", building / "staged"
    flags = {"CC": str(write_compiler(building)), "CFLAGS": "-O1 -fPIC"}
    build(zlib, ["--static", f"--prefix={libraries}"], ["install"], flags)
    # It takes the C library of the machine that builds it for its own, unless it is told.
    options = ["--build=x86_64-pc-linux-musl", f"--prefix={place}", "--disable-test-modules"]
    found = {"CPPFLAGS": f"-I{libraries}/include", "LDFLAGS": f"-L{libraries}/lib"}
    build(sources, options, ["install", f"DESTDIR={staged}"], {**flags, **found})
    shutil.move(f"{staged}{place}", place)
    shutil.rmtree(building)
    return python


def fetch_sources(folder: Path) -> list[Path]:
    """Unpacks the sources of packages of Debian, without Debian's changes, and returns their folders."""
    (folder / "lists" / "partial").mkdir(parents=True)
    listed = folder / "sources.list"
    listed.write_text(f"deb-src [signed-by={KEYRING}] {mirror()} {RELEASE} main\n")
    places = {"Etc::SourceList": listed, "Etc::SourceParts": "/dev/null", "State::Lists": folder / "lists"}
    apt = ["apt-get", "-qq", *(f"-oDir::{name}={path}" for name, path in places.items())]
    # It fetches as a user who may not write here.
    apt += ["-oAPT::Sandbox::User=root"]
    found = []
    for words in (["update"], *(["source", "--download-only", name] for name in SOURCES)):
        if subprocess.run([*apt, *words], cwd=folder, check=False).returncode != 0:
            raise CannotInstall(f"apt-get {' '.join(words)} failed for the sources of Debian {RELEASE}")
    for name in SOURCES:
        (archive,) = folder.glob(f"{name}_*.orig.tar.*")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
            found.append(folder / tar.getnames()[0].split("/")[0])
    return found


def write_compiler(folder: Path) -> Path:
    """Writes a program that is gcc for musl, also when it is asked what it is for, and returns its path."""
    compiler = folder / COMPILER
    answer = "case $1 in -print-multiarch | --print-multiarch) echo x86_64-linux-musl; exit ;; esac"
    compiler.write_text(f'#!/bin/sh\n{answer}\nexec {shutil.which(COMPILER)} "$@"\n')
    compiler.chmod(0o755)
    return compiler


def mirror() -> str:
    """Returns the address that this machine has Debian's packages from. Raises `CannotInstall`."""
    asked = ("apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {RELEASE}", "Created-By: Packages")
    if not shutil.which("apt-get") or not (found := said(*asked).split()):
        raise CannotInstall(f"apt-get has no packages of Debian {RELEASE}")
    return found[0]


def build(folder: Path, options: list[str], install: list[str], variables: dict[str, str]) -> None:
    """Configures, builds and installs what is in a folder; its output is in a file, unless it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAKE"))}
    log = folder.parent / f"{folder.name}.log"
    with log.open("w") as output:
        for command in (["./configure", *options], ["make", f"-j{os.cpu_count()}"], ["make", *install]):
            done = subprocess.run(
                command, cwd=folder, env={**environment, **variables}, stdout=output, stderr=output, check=False
            )
            if done.returncode != 0:
                end = "\n".join(log.read_text().splitlines()[-20:])
                raise CannotInstall(f"{' '.join(command[:2])} failed in {folder.name}:\n{end}")
