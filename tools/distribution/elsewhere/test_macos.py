"""What dist has for macOS is linked and signed, and cannot be run here. For FreeBSD the crates compile."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from artefacts import LARGEST_WHEEL, REPOSITORY, library, pythons_of, wheels_of
from commands import WORK, build_environment, said
from crossing import cross_environment, program_of_llvm
from frameworks import FRAMEWORKS
from interpreters import find_interpreters
from platforms import FREEBSD, MACOS, Platform
from signing import changed_pages
from trying import compile_smoke, unpack_c_library

OLDEST_SYSTEM = "11.0"
OLDEST_PYTHON = "3.9"
CRATES = ("pinyon-proto", "pinyon-net", "pinyon-cache", "pinyon-locks", "pinyon-capi", "pinyon-python")
#: What every Mac has, and where it is there.
SYSTEM = {
    *(f"/System/Library/Frameworks/{name}.framework/Versions/A/{name}" for name in FRAMEWORKS),
    *("/usr/lib/libSystem.B.dylib", "/usr/lib/libiconv.2.dylib", "/usr/lib/libcharset.1.dylib"),
}


def used_by(file: Path) -> set[str]:
    """The libraries that a library loads, without itself."""
    listed = said(program_of_llvm("objdump"), "--macho", "--dylibs-used", file)
    return set(re.findall(r"^\t(/\S+)", listed, re.MULTILINE))


def imported_by(file: Path) -> list[tuple[str, str]]:
    """The symbols that a library asks for, and which library; nothing if any may have it."""
    listed = said(program_of_llvm("nm"), "-m", "-u", file)
    return re.findall(r"external (\S+)(?: \(from (.*)\))?$", listed, re.MULTILINE)


def is_for_old_systems(file: Path) -> bool:
    headers = said(program_of_llvm("objdump"), "--macho", "--private-headers", file)
    return re.findall(r"minos (\S+)", headers) == [OLDEST_SYSTEM]


def has_debug_information(file: Path) -> bool:
    return "__DWARF" in said(program_of_llvm("objdump"), "--macho", "--private-headers", file)


@pytest.fixture
def c_library(tmp_path: Path) -> Path:
    return unpack_c_library(MACOS, tmp_path)


@pytest.fixture
def dylib(c_library: Path) -> Path:
    return c_library / "lib" / "libpinyon.dylib"


def test_there_is_a_wheel_for_each_python() -> None:
    assert pythons_of(MACOS) == sorted(find_interpreters()), "run make dist first"


@pytest.mark.parametrize("wheel", wheels_of(MACOS), ids=lambda wheel: wheel.name)
def test_a_wheel_asks_the_system_and_python_alone(wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "_native.so"
    file.write_bytes(library(wheel))
    assert f"_macosx_{OLDEST_SYSTEM.replace('.', '_')}_" in wheel.name.replace("-", "_")
    assert used_by(file) <= SYSTEM
    assert is_for_old_systems(file)
    # The interpreter that loads it has these.
    of_python = [symbol for symbol, whom in imported_by(file) if not whom]
    assert of_python
    assert [symbol for symbol in of_python if not symbol.startswith(("_Py", "__Py"))] == []
    assert changed_pages(library(wheel)) == []
    assert not has_debug_information(file)
    assert wheel.stat().st_size < LARGEST_WHEEL
    assert f"{REPOSITORY}/".encode() not in library(wheel)


def test_the_c_library_asks_the_system_alone(dylib: Path) -> None:
    assert used_by(dylib) <= SYSTEM
    assert is_for_old_systems(dylib)
    assert {whom for _, whom in imported_by(dylib)} <= {Path(path).name.split(".")[0] for path in SYSTEM}
    assert changed_pages(dylib.read_bytes()) == []
    assert not has_debug_information(dylib)
    assert dylib.is_symlink()


def test_a_program_finds_the_c_library_by_its_own_folders(dylib: Path) -> None:
    named = said(program_of_llvm("objdump"), "--macho", "--dylib-id", dylib).splitlines()[-1]
    assert named == f"@rpath/{dylib.resolve().name}"


def test_a_program_in_c_is_linked(c_library: Path, dylib: Path) -> None:
    program = compile_smoke(MACOS, c_library, c_library, static=False)
    assert "EXECUTE" in said(program_of_llvm("objdump"), "--macho", "--private-header", program)
    wanted = {whom for symbol, whom in imported_by(program) if symbol.startswith("_pinyon_")}
    assert wanted == {dylib.name.removesuffix(".dylib")}
    assert changed_pages(program.read_bytes()) == []


def test_a_byte_that_differs_from_the_signed_one_is_found(dylib: Path) -> None:
    contents = bytearray(dylib.read_bytes())
    contents[5_000] ^= 1
    assert len(changed_pages(bytes(contents))) == 1


@pytest.mark.parametrize("platform", [MACOS, FREEBSD], ids=lambda platform: platform.name)
def test_the_crates_compile(platform: Platform) -> None:
    environment = cross_environment(platform, {**build_environment(), "CARGO_TARGET_DIR": str(WORK / "tests")})
    environment["PYO3_CROSS_PYTHON_VERSION"] = OLDEST_PYTHON
    named = [word for crate in CRATES for word in ("-p", crate)]
    words = ["cargo", "check", "--locked", "-q", "--target", platform.triple, *named]
    subprocess.run(words, cwd=REPOSITORY, env=environment, check=True)
