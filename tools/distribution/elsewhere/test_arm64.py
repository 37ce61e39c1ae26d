"""What dist has for Linux on arm64, installed and used in an emulator."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from artefacts import DIST, LARGEST_WHEEL, REPOSITORY, library, pythons_of, wheels_of
from commands import own_version
from crossing import program_of_llvm
from emulation import emulated_environment, make_emulated, make_emulator
from interpreters import find_interpreters
from own_tests import CRATES, emulated_with_servers, play_crate, play_perl, play_python, play_ruby
from perls import install_perl
from platforms import ARM64
from trying import compile_smoke, machine_of, oldest_glibc, unpack_c_library

MACHINE = "elf64-littleaarch64"
GLIBC = (2, 17)
SMOKE = Path(__file__).parents[1]
#: Python of the release in the folder.
TAG = "cp311"
#: The files of the languages' tests that have passed in the emulator.
PYTHON_TESTS = (
    *("alive", "batch", "behind", "client", "coroutines", "custom_serializers", "errors", "fork", "get_or_set"),
    *("get_or_set_many", "interrupts", "iter_many", "leaders", "leases", "lease_scenarios", "locks", "locks_labels"),
    *("locks_sharing", "many", "near", "rates", "refused_stores", "signals", "tags", "threads", "unreadable", "values"),
)
RUBY_TESTS = (
    *("behind", "client", "credentials", "discovery", "errors", "fetch", "fetch_many", "fibers", "forks", "interrupts"),
    *("iter_many", "leaders", "lease_scenarios", "lock_fibers", "lock_sharing", "locks", "migration", "near"),
    *("ractors", "rates", "values", "vectors"),
)
PERL_TESTS = ("caches", "errors", "leases", "lock_sharing", "locks", "near", "rates", "values")
GEM = DIST / f"pinyon-{own_version()}-{ARM64.gem}.gem"


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
    assert oldest_glibc(file, program_of_llvm("objdump")) <= GLIBC
    assert wheel.stat().st_size < LARGEST_WHEEL
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


def test_the_core_of_the_tests_of_python() -> None:
    play_python(ARM64, own_wheel(), PYTHON_TESTS)


def test_the_core_of_the_tests_of_ruby(gem_home: Path) -> None:
    (native,) = gem_home.rglob("native.so")
    play_ruby(ARM64, native, RUBY_TESTS)


def test_what_the_garbage_collector_of_ruby_takes(gem_home: Path) -> None:
    (native,) = gem_home.rglob("native.so")
    # See the Rakefile, which starts them alone, too.
    play_ruby(ARM64, native, ("garbage",), RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO="1.0")


@pytest.fixture(scope="module")
def perl_distribution(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("perl")
    return install_perl(ARM64, unpack_c_library(ARM64, at), folder, at, emulated_environment(folder))


def test_the_perl_distribution_works(folder: Path, perl_distribution: Path) -> None:
    local = perl_distribution.with_name("local")
    (native,) = local.rglob("Pinyon.so")
    assert machine_of(native) == MACHINE
    installed = native.parents[2]
    words = ["perl", f"-I{installed}", f"-I{installed.parent}", str(SMOKE / "smoke.pl"), str(local)]
    subprocess.run(words, env=emulated_with_servers(ARM64, folder), check=True)


def test_the_core_of_the_tests_of_perl(perl_distribution: Path) -> None:
    play_perl(ARM64, perl_distribution, PERL_TESTS)


@pytest.mark.parametrize("crate", CRATES)
def test_the_tests_of_a_crate(crate: str) -> None:
    play_crate(ARM64, crate)
