"""What dist has for Linux with musl. Static programs run on any Linux, so they are run here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from artefacts import REPOSITORY, library, wheels_of
from commands import WORK, build_environment
from crossing import cross_environment, program_of_llvm
from platforms import MUSL
from trying import compile_smoke, said, unpack_c_library

MEGABYTE = 1_000_000
CRATES = ("pinyon-proto", "pinyon-net", "pinyon-cache", "pinyon-locks")


@pytest.mark.parametrize("wheel", wheels_of(MUSL), ids=lambda wheel: wheel.name)
def test_a_wheel_needs_musl_alone(wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "_native.so"
    file.write_bytes(library(wheel))
    assert "musllinux_" in wheel.name
    dynamic = said(program_of_llvm("readelf"), "--dynamic", file)
    needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "NEEDED" in line}
    assert needed <= {"libc.so", "libc.musl-x86_64.so.1"}
    assert "GLIBC_" not in said(program_of_llvm("readelf"), "--dyn-syms", file)
    assert wheel.stat().st_size < 4 * MEGABYTE


def test_a_static_program_in_c_works(memcached: Path, tmp_path: Path) -> None:
    program = compile_smoke(MUSL, unpack_c_library(MUSL, tmp_path), tmp_path, static=True)
    assert "NEEDED" not in said(program_of_llvm("readelf"), "--dynamic", program)
    assert subprocess.run([str(program), str(memcached)], check=False).returncode == 0


@pytest.mark.parametrize("crate", CRATES)
def test_the_tests_of_a_crate(crate: str) -> None:
    environment = cross_environment(MUSL, {**build_environment(), "CARGO_TARGET_DIR": str(WORK / "tests")})
    words = ["cargo", "test", "--locked", "-q", "--target", MUSL.triple, "-p", crate]
    subprocess.run(words, cwd=REPOSITORY, env=environment, check=True)
