#!/usr/bin/env python3
"""Builds what is uploaded to an index: a source distribution, a wheel for each CPython on PATH, the gems, and
the Perl distributions.

    tools/distribution/build.py

Zig links wheels and the precompiled gem, so that they run on old Linux systems, whatever the C library of this one is.
The folder dist is written anew; the debug information goes to dist/debug.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from commands import DIST, REPOSITORY, TOOLS, build_environment, run, separate_debug_information
from cpan import build_perl
from gems import build_gems
from interpreters import find_interpreters
from rubies import find_rubies, make_folder

#: The oldest C library that Rust's standard library runs on: glibc 2.17.
MANYLINUX = "manylinux2014"
PYTHON = REPOSITORY / "python"


def main() -> None:
    """Builds everything and says what there is."""
    pythons = find_interpreters()
    if not pythons:
        sys.exit("dist: no CPython that Pinyon supports is on PATH; install one, such as python3.11.")
    missing = make_folder()
    rubies = find_rubies()
    print("dist: for", ", ".join([*pythons, *(f"Ruby {version}" for version in rubies)]), flush=True)
    if missing:
        print(f"dist: the precompiled gem is for this machine's Ruby alone: {missing}.", flush=True)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    environment = build_environment()
    with tempfile.TemporaryDirectory(prefix="pinyon-dist-") as scratch:
        built = Path(scratch) / "built"
        build_wheels(list(pythons.values()), built, environment)
        for wheel in sorted(built.glob("*.whl")):
            pack_without_debug_information(wheel, Path(scratch), environment)
        build_gems(rubies, Path(scratch), environment)
        build_perl(Path(scratch), environment)
    run(TOOLS / "maturin", "sdist", "--out", DIST, environment=environment, folder=PYTHON)
    for file in sorted(path for path in DIST.rglob("*") if path.is_file()):
        print(f"{file.stat().st_size:>12,} bytes  {os.path.relpath(file)}")


def build_wheels(pythons: list[Path], folder: Path, environment: Mapping[str, str]) -> None:
    """Builds a wheel for each interpreter, with the debug information still inside."""
    options = ["--profile", "release", "--locked", "--zig", "--compatibility", MANYLINUX, "--out", str(folder)]
    command: list[str | Path] = [TOOLS / "maturin", "build", *options, "--interpreter", *pythons]
    run(*command, environment=environment, folder=PYTHON)


def pack_without_debug_information(wheel: Path, scratch: Path, environment: Mapping[str, str]) -> None:
    """Packs a wheel again, with its debug information in a file beside it."""
    contents = scratch / wheel.stem
    run(TOOLS / "wheel", "unpack", wheel, "--dest", contents, environment=environment)
    (library,) = contents.rglob("_native*.so")
    separate_debug_information(library, DIST / "debug" / f"{wheel.stem}.debug", environment)
    (unpacked,) = contents.iterdir()
    run(TOOLS / "wheel", "pack", unpacked, "--dest-dir", DIST, environment=environment)


if __name__ == "__main__":
    main()
