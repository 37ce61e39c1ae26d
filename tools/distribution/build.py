#!/usr/bin/env python3
"""Builds what is uploaded to an index: a source distribution, and a wheel for each CPython on PATH.

    tools/distribution/build.py

Zig links the wheels, so that they run on old Linux systems, whatever the C library of this one is. The folder dist is
written anew; the wheels' debug information goes to dist/debug.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from interpreters import find_interpreters

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"
#: The oldest C library that Rust's standard library runs on: glibc 2.17.
MANYLINUX = "manylinux2014"
#: Where what only a distribution needs is kept: its tools, and what is built with other flags than for the tests.
WORK = REPOSITORY / "target" / "dist"
TOOLS = WORK / "tools" / "bin"


def main() -> None:
    """Builds everything and says what there is."""
    pythons = find_interpreters()
    if not pythons:
        sys.exit("dist: no CPython that Pinyon supports is on PATH; install one, such as python3.11.")
    print("dist: for", ", ".join(pythons), flush=True)
    shutil.rmtree(DIST, ignore_errors=True)
    environment = build_environment()
    with tempfile.TemporaryDirectory(prefix="pinyon-dist-") as scratch:
        built = Path(scratch) / "built"
        build_wheels(list(pythons.values()), built, environment)
        for wheel in sorted(built.glob("*.whl")):
            separate_debug_information(wheel, Path(scratch), environment)
    run(TOOLS / "maturin", "sdist", "--out", DIST, environment=environment)
    for file in sorted(path for path in DIST.rglob("*") if path.is_file()):
        print(f"{file.stat().st_size:>12,} bytes  {os.path.relpath(file)}")


def build_environment() -> dict[str, str]:
    """Returns an environment that keeps this machine's paths and clock out of the files."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYO3_PYTHON", "VIRTUAL_ENV")}
    cargo = Path(environment.get("CARGO_HOME") or Path.home() / ".cargo")
    renamed = {cargo / "registry" / "src": "crates", REPOSITORY: "pinyon"}
    flags = (f"--remap-path-prefix={path}={name}" for path, name in renamed.items())
    committed = ("git", "-C", str(REPOSITORY), "log", "-1", "--format=%ct")
    return {
        **environment,
        "PATH": f"{TOOLS}{os.pathsep}{environment['PATH']}",
        "CARGO_TARGET_DIR": str(WORK / "target"),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "SOURCE_DATE_EPOCH": subprocess.run(committed, capture_output=True, text=True, check=True).stdout.strip(),
    }


def build_wheels(pythons: list[Path], folder: Path, environment: Mapping[str, str]) -> None:
    """Builds a wheel for each interpreter, with the debug information still inside."""
    options = ["--profile", "release", "--locked", "--zig", "--compatibility", MANYLINUX, "--out", str(folder)]
    run(TOOLS / "maturin", "build", *options, "--interpreter", *pythons, environment=environment)


def separate_debug_information(wheel: Path, scratch: Path, environment: Mapping[str, str]) -> None:
    """Moves what debuggers and profilers need of a wheel into a file beside it, to which the library keeps a link."""
    contents = scratch / wheel.stem
    run(TOOLS / "wheel", "unpack", wheel, "--dest", contents, environment=environment)
    (library,) = contents.rglob("_native*.so")
    debug = DIST / "debug" / f"{wheel.stem}.debug"
    debug.parent.mkdir(parents=True, exist_ok=True)
    run("objcopy", "--only-keep-debug", "--compress-debug-sections", library, debug, environment=environment)
    run("objcopy", "--strip-unneeded", f"--add-gnu-debuglink={debug}", library, environment=environment)
    (unpacked,) = contents.iterdir()
    run(TOOLS / "wheel", "pack", unpacked, "--dest-dir", DIST, environment=environment)


def run(*command: str | Path, environment: Mapping[str, str]) -> None:
    """Runs a command where the Python package is; ends the program when it fails."""
    try:
        subprocess.run([str(part) for part in command], cwd=REPOSITORY / "python", env=environment, check=True)
    except FileNotFoundError:
        sys.exit(f"dist: {command[0]} is missing; run make dist, which installs it.")
    except subprocess.CalledProcessError as error:
        sys.exit(f"dist: {Path(command[0]).name} failed with status {error.returncode}; its output is above.")


if __name__ == "__main__":
    main()
