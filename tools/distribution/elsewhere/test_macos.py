"""What dist has for macOS is compiled and linked. Nothing of it can be run here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from artefacts import REPOSITORY, library, wheels_of
from commands import WORK, build_environment
from crossing import cross_environment
from platforms import FREEBSD, MACOS, Platform
from trying import machine_of, unpack_c_library

OLDEST_PYTHON = "3.9"
CRATES = ("pinyon-proto", "pinyon-net", "pinyon-cache", "pinyon-locks", "pinyon-capi", "pinyon-python")


@pytest.mark.parametrize("wheel", wheels_of(MACOS), ids=lambda wheel: wheel.name)
def test_a_wheel_is_for_the_system(wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "_native.so"
    file.write_bytes(library(wheel))
    assert machine_of(file).startswith("mach-o")
    assert wheel.name.endswith("_arm64.whl")


def test_the_c_library_is_for_the_system(tmp_path: Path) -> None:
    assert machine_of(unpack_c_library(MACOS, tmp_path) / "lib" / "libpinyon.dylib").startswith("mach-o")


@pytest.mark.parametrize("platform", [MACOS, FREEBSD], ids=lambda platform: platform.name)
def test_the_crates_compile(platform: Platform) -> None:
    environment = cross_environment(platform, {**build_environment(), "CARGO_TARGET_DIR": str(WORK / "tests")})
    named = [word for crate in CRATES for word in ("-p", crate)]
    environment["PYO3_CROSS_PYTHON_VERSION"] = OLDEST_PYTHON
    words = ["cargo", "check", "--locked", "-q", "--target", platform.triple, *named]
    subprocess.run(words, cwd=REPOSITORY, env=environment, check=True)
