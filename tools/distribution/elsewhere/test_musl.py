"""What dist has for Linux with musl, which this machine runs beside its own C library."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from artefacts import LARGEST_WHEEL, REPOSITORY, contents, library, pythons_of, wheels_of
from commands import said
from crossing import program_of_llvm
from interpreters import find_interpreters
from musl import COMPILER, TAG, make_musl_python
from own_tests import CRATES, play_crate
from platforms import MUSL
from trying import SMOKE, compile_smoke, unpack_c_library

#: Zig's name of it, and Alpine's.
C_LIBRARIES = {"libc.so", "libc.musl-x86_64.so.1"}
LOADER = "/lib/ld-musl-x86_64.so.1"


def needed_by(file: Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\) .*\[(.*)\]", said(program_of_llvm("readelf"), "--dynamic", file)))


def has_symbols_of_glibc(file: Path) -> bool:
    return "GLIBC_" in said(program_of_llvm("readelf"), "--dyn-syms", file)


def loader_of(program: Path) -> str | None:
    found = re.search(r"interpreter: (.*)\]", said(program_of_llvm("readelf"), "--program-headers", program))
    return found and found[1]


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    return unpack_c_library(MUSL, tmp_path)


def test_there_is_a_wheel_for_each_python() -> None:
    assert pythons_of(MUSL) == sorted(find_interpreters()), "run make dist first"


@pytest.mark.parametrize("wheel", wheels_of(MUSL), ids=lambda wheel: wheel.name)
def test_a_wheel_needs_musl_alone(wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "_native.so"
    file.write_bytes(library(wheel))
    assert any(name.endswith("-x86_64-linux-musl.so") for name in contents(wheel))
    assert needed_by(file) <= C_LIBRARIES
    assert not has_symbols_of_glibc(file)
    assert wheel.stat().st_size < LARGEST_WHEEL
    assert f"{REPOSITORY}/".encode() not in library(wheel)


def test_the_wheel_installs_by_itself_and_works(tmp_path: Path) -> None:
    (wheel,) = (wheel for wheel in wheels_of(MUSL) if f"-{TAG}-" in wheel.name)
    interpreter = make_musl_python()
    assert loader_of(interpreter.resolve()) == LOADER
    subprocess.run([str(interpreter), "-m", "venv", "env"], cwd=tmp_path, check=True)
    python = str(tmp_path / "env" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", str(wheel)], check=True)
    subprocess.run([python, "-I", str(SMOKE.with_name("smoke.py"))], cwd=tmp_path, check=True)


def test_the_shared_library_needs_musl_alone(unpacked: Path) -> None:
    shared = unpacked / "lib" / "libpinyon.so.1"
    assert needed_by(shared) <= C_LIBRARIES
    assert not has_symbols_of_glibc(shared)


def test_a_program_in_c_works(unpacked: Path, memcached: Path, redis: str) -> None:
    program = unpacked / "smoke"
    linked = (f"-L{unpacked}/lib", "-lpinyon", f"-Wl,-rpath,{unpacked}/lib")
    said(COMPILER, "-std=c11", "-Wall", "-Werror", f"-I{unpacked}/include", SMOKE, "-o", program, *linked)
    assert loader_of(program) == LOADER
    subprocess.run([str(program), str(memcached), redis], check=True)


# Debian's gcc cannot link it: what unwinds the stack there is for glibc.
def test_a_static_program_in_c_works(unpacked: Path, memcached: Path, redis: str) -> None:
    program = compile_smoke(MUSL, unpacked, unpacked, static=True)
    assert loader_of(program) is None
    subprocess.run([str(program), str(memcached), redis], check=True)


@pytest.mark.parametrize("crate", CRATES)
def test_the_tests_of_a_crate(crate: str) -> None:
    play_crate(MUSL, crate)
