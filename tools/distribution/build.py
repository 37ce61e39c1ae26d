#!/usr/bin/env python3
"""Builds what is uploaded to an index: a source distribution, wheels, the gems, the Perl distributions, and archives of
the C library.

    tools/distribution/build.py

Wheels, precompiled gems and C libraries are for each platform that the variable PLATFORMS names, or for all, and wheels
for each CPython on PATH. Zig links them, so that they run on old systems, whatever the C library of this one is. The
folder dist is written anew; the debug information goes to dist/debug.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from clibrary import build_c_library
from commands import DIST, TOOLS, build_environment, run
from cpan import build_perl
from emulation import emulated_ruby, make_emulated
from gems import build_precompiled_gem, build_source_gem
from interpreters import find_interpreters
from newer.folders import CannotInstall
from platforms import X86_64, Platform, chosen_platforms
from rubies import find_rubies, make_folder, versions_of
from wheels import PYTHON, build_wheels


def main() -> None:
    """Builds everything and says what there is."""
    platforms = chosen_platforms()
    pythons = find_interpreters()
    if not pythons:
        sys.exit("dist: no CPython that Pinyon supports is on PATH; install one, such as python3.11.")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    environment = build_environment()
    with tempfile.TemporaryDirectory(prefix="pinyon-dist-") as scratch:
        for platform in platforms:
            build_for(platform, pythons, Path(scratch) / platform.name, environment)
        build_source_gem(Path(scratch), environment)
        build_perl(Path(scratch), environment)
    run(TOOLS / "maturin", "sdist", "--out", DIST, environment=environment, folder=PYTHON)
    for file in sorted(path for path in DIST.rglob("*") if path.is_file()):
        print(f"{file.stat().st_size:>12,} bytes  {os.path.relpath(file)}")


def build_for(platform: Platform, pythons: Mapping[str, Path], scratch: Path, environment: Mapping[str, str]) -> None:
    """Builds what differs by platform."""
    scratch.mkdir()
    rubies = rubies_of(platform)
    print(f"dist: {platform.name}, for", ", ".join([*pythons, *(f"Ruby {version}" for version in rubies)]), flush=True)
    build_wheels(platform, list(pythons.values()), scratch, environment)
    build_c_library(platform, scratch, environment)
    if rubies:
        build_precompiled_gem(platform, rubies, scratch, environment)


def rubies_of(platform: Platform) -> dict[str, Path]:
    """Returns the programs that start Ruby of a platform, by its version; none where it cannot be had."""
    if platform == X86_64:
        missing = make_folder()
        if missing:
            print(f"dist: the precompiled gem is for this machine's Ruby alone: {missing}.", flush=True)
        return find_rubies()
    if not platform.gem:
        return {}
    try:
        return versions_of([emulated_ruby(make_emulated(platform))])
    except CannotInstall as reason:
        print(f"dist: no precompiled gem for {platform.name}: {reason}.", flush=True)
        return {}


if __name__ == "__main__":
    main()
