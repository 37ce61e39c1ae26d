"""Builds the wheels of a platform."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from commands import DIST, REPOSITORY, TOOLS, run, separate_debug_information
from crossing import cross_environment, program_of_llvm
from platforms import X86_64, Platform

PYTHON = REPOSITORY / "python"


def build_wheels(platform: Platform, pythons: list[Path], scratch: Path, environment: Mapping[str, str]) -> None:
    """Builds a wheel for each interpreter into dist, with the debug information in a file beside it."""
    built = scratch / "built"
    options = ["--profile", "release", "--locked", "--zig", "--out", str(built)]
    if platform.compatibility:
        options += ["--compatibility", platform.compatibility]
    if platform == X86_64:
        interpreters: list[str | Path] = [*pythons]
    else:
        environment = cross_environment(platform, environment)
        options += ["--target", platform.triple]
        # maturin knows what their names stand for there.
        interpreters = [path.name for path in pythons]
    run(TOOLS / "maturin", "build", *options, "--interpreter", *interpreters, environment=environment, folder=PYTHON)
    for wheel in sorted(built.glob("*.whl")):
        if platform.is_apple:
            # Stripping it again would leave it with the signature of other bytes.
            shutil.copy(wheel, DIST)
        else:
            pack_without_debug_information(wheel, scratch, environment)
        compress(DIST / wheel.name, environment)


def pack_without_debug_information(wheel: Path, scratch: Path, environment: Mapping[str, str]) -> None:
    """Packs a wheel again, without the debug information."""
    contents = scratch / wheel.stem
    run(TOOLS / "wheel", "unpack", wheel, "--dest", contents, environment=environment)
    (library,) = contents.rglob("_native*.so")
    debug = DIST / "debug" / f"{wheel.stem}.debug"
    separate_debug_information(library, debug, environment, program_of_llvm("objcopy"))
    (unpacked,) = contents.iterdir()
    run(TOOLS / "wheel", "pack", unpacked, "--dest-dir", DIST, environment=environment)


def compress(wheel: Path, environment: Mapping[str, str]) -> None:
    """Makes a wheel smaller; whoever installs it needs nothing new for that."""
    run("advzip", "--recompress", "--shrink-extra", "--quiet", wheel, environment=environment)
