"""What dist has for Linux on arm64, installed and used in an emulator."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from artefacts import DIST, REPOSITORY, contents, library, pythons_of, wheels_of
from commands import WORK, own_version
from crossing import program_of_llvm
from emulation import emulated_environment, make_emulated, make_emulator
from interpreters import find_interpreters
from platforms import ARM64
from trying import compile_smoke, machine_of, said, unpack_c_library

MACHINE = "elf64-littleaarch64"
GLIBC = (2, 17)
MEGABYTE = 1_000_000
SMOKE = Path(__file__).parents[1]
#: Python of the release in the folder.
TAG = "cp311"
GEM = DIST / f"pinyon-{own_version()}-{ARM64.gem}.gem"
PYTHON_SUITES = ("test_client.py", "test_values.py", "test_fork.py", "test_locks.py")
#: What Python's suites import.
PACKAGES = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "gevent", "uvloop", "cryptography")


def by_name(path: Path) -> str:
    return path.name


@pytest.fixture(scope="module")
def folder() -> Path:
    return make_emulated(ARM64)


def run(*command: str | Path, folder: Path, at: Path, **variables: str) -> None:
    """Runs a program of the folder; its children are emulated, too."""
    environment = {**emulated_environment(folder), **variables}
    subprocess.run([str(part) for part in command], cwd=at, env=environment, check=True)


def test_there_is_a_wheel_for_each_python() -> None:
    assert pythons_of(ARM64) == sorted(find_interpreters()), "run make dist first"


@pytest.mark.parametrize("wheel", wheels_of(ARM64), ids=by_name)
def test_a_wheel_is_for_old_systems_of_the_processor(wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "_native.so"
    file.write_bytes(library(wheel))
    assert machine_of(file) == MACHINE
    symbols = said(program_of_llvm("objdump"), "-T", file)
    assert max(tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)) <= GLIBC
    assert wheel.stat().st_size < 4 * MEGABYTE
    assert f"{REPOSITORY}/".encode() not in library(wheel)


def own_wheel() -> Path:
    (wheel,) = (wheel for wheel in wheels_of(ARM64) if f"-{TAG}-" in wheel.name)
    return wheel


def test_the_wheel_installs_by_itself_and_works(folder: Path, tmp_path: Path) -> None:
    run("python3", "-m", "venv", "env", folder=folder, at=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", own_wheel(), folder=folder, at=tmp_path)
    run(python, "-I", SMOKE / "smoke.py", folder=folder, at=tmp_path)


@pytest.fixture(scope="module")
def gem_home(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("gems")
    install = ("ruby", "-S", "gem", "install", "--local", "--no-document", GEM)
    run(*install, folder=folder, at=home, GEM_HOME=str(home), HOME=str(home))
    return home


def test_the_gem_installs_by_itself_and_works(folder: Path, gem_home: Path) -> None:
    (native,) = gem_home.rglob("native.so")
    assert machine_of(native) == MACHINE
    run("ruby", SMOKE / "smoke.rb", folder=folder, at=gem_home, GEM_HOME=str(gem_home))


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_a_program_in_c_works(folder: Path, memcached: Path, tmp_path: Path, static: bool) -> None:
    unpacked = unpack_c_library(ARM64, tmp_path)
    program = compile_smoke(ARM64, unpacked, tmp_path, static=static)
    assert machine_of(program) == MACHINE
    started = subprocess.run([str(make_emulator(ARM64)), "-L", str(folder), str(program), str(memcached)], check=False)
    assert started.returncode == 0


@pytest.fixture(scope="module")
def checkout() -> Path:
    """A copy of the checkout with the native module of the wheel, for tests that start programs."""
    place = WORK / f"{ARM64.name}-checkout"
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run(["git", "checkout-index", "--all", f"--prefix={place}/"], cwd=REPOSITORY, check=True)
    (name,) = (name for name in contents(own_wheel()) if name.startswith("pinyon/_native") and name.endswith(".so"))
    (place / "python" / name).write_bytes(library(own_wheel()))
    return place


@pytest.fixture(scope="module")
def packages() -> Path:
    place = WORK / f"{ARM64.name}-packages"
    shutil.rmtree(place, ignore_errors=True)
    platforms = [f"--platform={tag}_aarch64" for tag in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")]
    constraints = REPOSITORY / "python" / "requirements-test.txt"
    words = [*platforms, "--only-binary=:all:", "--python-version=3.11", "--implementation=cp", "-c", str(constraints)]
    install = ["python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(place)]
    subprocess.run([*install, *words, *PACKAGES], check=True)
    return place


def test_suites_of_python(folder: Path, packages: Path, checkout: Path) -> None:
    suites = [f"tests/{name}" for name in PYTHON_SUITES]
    found = os.pathsep.join(map(str, (checkout / "python", packages, checkout / "verify")))
    words = ("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2")
    run(*words, *suites, folder=folder, at=checkout / "python", PYTHONPATH=found, PYTHONDONTWRITEBYTECODE="1")
