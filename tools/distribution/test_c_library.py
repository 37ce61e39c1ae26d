"""The C library of this machine's platform, unpacked anywhere, is what programs of gcc are built with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from artefacts import LICENCES
from commands import said
from platforms import X86_64
from trying import SMOKE, oldest_glibc, unpack_c_library

#: The oldest system that runs it.
GLIBC = (2, 17)


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    return unpack_c_library(X86_64, tmp_path)


def flags(unpacked: Path, *words: str) -> list[str]:
    """What pkg-config says that a program needs, of the archive's pinyon.pc."""
    command = ["pkg-config", "--cflags", "--libs", *words, "pinyon"]
    found = {**os.environ, "PKG_CONFIG_PATH": str(unpacked / "lib" / "pkgconfig")}
    return subprocess.run(command, env=found, capture_output=True, text=True, check=True).stdout.split()


def test_it_runs_on_old_systems(unpacked: Path) -> None:
    assert oldest_glibc(unpacked / "lib" / "libpinyon.so.1") <= GLIBC


def test_the_licences_are_inside(unpacked: Path) -> None:
    assert {name: (unpacked / name).read_bytes() for name in LICENCES} == LICENCES


@pytest.mark.parametrize("linked", ["shared", "static"])
def test_a_program_in_c_works(unpacked: Path, memcached: Path, redis: str, linked: str) -> None:
    program = unpacked / "smoke"
    words = flags(unpacked, *(["--static"] if linked == "static" else []))
    if linked == "static":
        words = [str(unpacked / "lib" / "libpinyon.a") if word == "-lpinyon" else word for word in words]
    said("gcc", "-std=c11", "-Wall", "-Werror", SMOKE, "-o", program, *words, f"-Wl,-rpath,{unpacked / 'lib'}")
    needed = said("readelf", "--dynamic", program)
    assert ("libpinyon.so.1" in needed) is (linked == "shared")
    subprocess.run([str(program), str(memcached), redis], check=True)
