"""Builds the archive of a platform's C library: headers, libraries and pinyon.pc, as `make install-c` lays them."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from commands import DIST, REPOSITORY, TARGET, own_version, run
from crossing import cross_environment, program_of_llvm
from platforms import Platform

#: Without the crate type that the tests need, which would keep the linker from optimising across crates.
CARGO = (
    "cargo",
    "rustc",
    "--release",
    "--locked",
    "-q",
    "-p",
    "pinyon-capi",
    "--lib",
    "--crate-type",
    "staticlib,cdylib",
)


def build_c_library(platform: Platform, scratch: Path, environment: Mapping[str, str]) -> Path:
    """Builds the archive into dist and returns it."""
    here = cross_environment(platform, environment)
    run(*CARGO, "--target", platform.triple, environment=here)
    built = TARGET / platform.triple / "release"
    name = platform.c_library(own_version())
    stage = scratch / name
    lay_out(stage, built, environment)
    return pack(stage, DIST / f"{name}.tar.gz", int(environment["SOURCE_DATE_EPOCH"]))


def lay_out(stage: Path, built: Path, environment: Mapping[str, str]) -> None:
    """Copies headers and libraries to where they are installed."""
    strip = program_of_llvm("strip")
    include, libraries = stage / "include", stage / "lib"
    shutil.copytree(REPOSITORY / "capi" / "include", include)
    (libraries / "pkgconfig").mkdir(parents=True)
    for file, place in {"libpinyon.a": "libpinyon.a", "libpinyon.so": "libpinyon.so.1"}.items():
        run(strip, "-S", "-o", libraries / place, built / file, environment=environment)
        (libraries / place).chmod(0o644)
    (libraries / "libpinyon.so").symlink_to("libpinyon.so.1")
    text = (REPOSITORY / "capi" / "pinyon.pc.in").read_text()
    places = {"@PREFIX@": "${pcfiledir}/../..", "@LIBDIR@": "${pcfiledir}/..", "@VERSION@": own_version()}
    for word, place in places.items():
        text = text.replace(word, place)
    (libraries / "pkgconfig" / "pinyon.pc").write_text(text)
    for licence in REPOSITORY.glob("LICENSE-*"):
        shutil.copy(licence, stage)


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
