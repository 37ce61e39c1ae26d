"""Compiles and inspects what is in dist for other platforms."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

from artefacts import DIST
from commands import own_version, said
from crossing import program_of_llvm, write_program
from platforms import Platform

SMOKE = Path(__file__).with_name("smoke.c")


def unpack_c_library(platform: Platform, folder: Path) -> Path:
    """Unpacks the archive of a platform's C library and returns its folder."""
    name = platform.c_library(own_version())
    with tarfile.open(DIST / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def compile_smoke(platform: Platform, library: Path, folder: Path, *, static: bool) -> Path:
    """Compiles the program that uses the C library first, and links it with the library of a platform."""
    program = folder / ("smoke-static" if static else "smoke-shared")
    linked: list[str | Path] = (
        [library / "lib" / "libpinyon.a", *private_libraries(library)]
        if static
        else ["-L", library / "lib", "-lpinyon", f"-Wl,-rpath,{library / 'lib'}"]
    )
    compiler = write_program(platform, "cc")
    said(compiler, "-std=c11", "-Wall", "-Werror", "-I", library / "include", SMOKE, "-o", program, *linked)
    return program


def private_libraries(library: Path) -> list[str]:
    """Returns what pinyon.pc says that a program has to be linked with beside the static library."""
    text = (library / "lib" / "pkgconfig" / "pinyon.pc").read_text()
    found = re.search(r"^Libs.private: (.*)$", text, re.MULTILINE)
    assert found is not None
    return found[1].split()


def machine_of(file: Path) -> str:
    """Returns what a library or a program says that it is for, such as "elf64-littleaarch64"."""
    found = re.search(r"file format (\S+)", said(program_of_llvm("objdump"), "-f", file))
    assert found is not None
    return found[1]


def oldest_glibc(file: Path, objdump: str = "objdump") -> tuple[int, ...]:
    """Returns the version of glibc that a library or a program needs at least, as `objdump` reads its symbols."""
    return max(tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", said(objdump, "-T", file)))
