"""Builds the archive of a platform's C library: headers, libraries and pinyon.pc, as `make install-c` lays them."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from commands import DIST, REPOSITORY, TARGET, own_version, run
from crossing import cross_environment, program_of_llvm
from platforms import Platform

#: What pinyon.pc says, wherever the archive is unpacked. `make` turns two dollars into one.
ANYWHERE = {"PC_PREFIX": "$${pcfiledir}/../..", "PC_LIBDIR": "$${pcfiledir}/.."}


def build_c_library(platform: Platform, scratch: Path, environment: Mapping[str, str]) -> Path:
    """Builds the archive into dist and returns it."""
    name = platform.c_library(own_version())
    stage = scratch / name
    built = {"C_TARGET": platform.triple, "C_BUILT": TARGET / platform.triple / "release", **systems_own(platform)}
    places = {"DESTDIR": stage, "PREFIX": "", "LIBDIR": "/lib", **ANYWHERE}
    variables = (f"{variable}={value}" for variable, value in {**built, **places}.items())
    run("make", "--no-print-directory", "install-c", *variables, environment=cross_environment(platform, environment))
    for licence in REPOSITORY.glob("LICENSE-*"):
        shutil.copy(licence, stage)
    return pack(stage, DIST / f"{name}.tar.gz", int(environment["SOURCE_DATE_EPOCH"]))


def systems_own(platform: Platform) -> dict[str, str]:
    """Returns the variables of `make install-c` that differ by system."""
    if platform.is_apple:
        # Stripping it would leave the library with the signature of other bytes; it has no debug information.
        return {"C_SYSTEM": "Darwin", "STRIP": ""}
    strip = {"STRIP": program_of_llvm("strip")}
    return {**strip, "C_UNWINDER": "-lgcc_eh"} if platform.is_musl else strip


def pack(stage: Path, archive: Path, moment: int) -> Path:
    """Writes an archive that is the same for the same files."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = moment
        return entry

    with tarfile.open(archive, "w:gz", compresslevel=9) as tar:
        for file in sorted(path for path in stage.rglob("*") if path.is_file() or path.is_symlink()):
            tar.add(file, f"{stage.name}/{file.relative_to(stage)}", filter=plain)
    return archive
