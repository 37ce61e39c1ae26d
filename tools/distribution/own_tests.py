"""Plays Pinyon's own tests on other platforms, with the memcached and the Redis of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from artefacts import contents
from commands import REPOSITORY, WORK, build_environment
from crossing import cross_environment
from emulation import emulated_environment, make_emulated, make_emulator
from platforms import Platform

#: The crates with tests of their own.
CRATES = ("pinyon-proto", "pinyon-net", "pinyon-cache", "pinyon-locks")
#: What the tests of Python need, in the versions of all its tests; of the frameworks, none.
PACKAGES = ("cryptography", "gevent", "hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "uvloop")
PINNED = REPOSITORY / "python" / "requirements-test.txt"
#: Programs of this machine that tests start: emulated ones would take most of the time.
SERVERS = ("memcached", "redis-server", "redis-cli")
#: Seconds for one test: the emulator takes minutes where random values are many.
PATIENCE = 1800
PYTHON_VERSION = "3.11"
#: Tests of crates that are left out in an emulator. Schedules in memory take an hour there, make no system calls and
#: have one thread. The other test counts the signals that a thread blocks, and the emulator blocks fewer.
LEFT_OUT = {"pinyon-locks": ("schedules::", "a_process_has_what_it_acquired_and_a_keeper_for_it")}


def server(name: str) -> str:
    """Returns where this machine has a program of `SERVERS`."""
    found = shutil.which(name)
    assert found, f"the tests start {name}"
    return found


def play_crate(platform: Platform, crate: str) -> None:
    """Builds and runs the tests of a crate on another platform. Raises `CalledProcessError` if one fails."""
    for name in SERVERS:
        server(name)
    apart = {**build_environment(), "CARGO_TARGET_DIR": str(WORK / "tests")}
    environment = cross_environment(platform, apart, static_programs=True)
    words = ["cargo", "test", "--locked", "-q", "--target", platform.triple, "-p", crate]
    if platform.emulator:
        runner = f"{make_emulator(platform)} -L {make_emulated(platform)}"
        environment[f"CARGO_TARGET_{platform.variable.upper()}_RUNNER"] = runner
        words += ["--", *(f"--skip={name}" for name in LEFT_OUT.get(crate, ()))]
    subprocess.run(words, cwd=REPOSITORY, env=environment, check=True)


def make_checkout(platform: Platform) -> Path:
    """Copies the files of this checkout, without what was built in it, and returns their folder."""
    place = WORK / f"{platform.name}-checkout"
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run(["git", "checkout-index", "--all", f"--prefix={place}/"], cwd=REPOSITORY, check=True)
    return place


def make_packages(platform: Platform) -> Path:
    """Installs the packages that Python's tests need, for the platform, and returns their folder."""
    place = WORK / f"{platform.name}-packages"
    if place.exists():
        return place
    unfinished = place.with_suffix(".unfinished")
    processor = platform.triple.split("-")[0]
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(unfinished), "-c", str(PINNED)]
    words += ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON_VERSION}"]
    words += [f"--platform={system}_{processor}" for system in ("manylinux2014", "manylinux_2_28")]
    subprocess.run([*words, *PACKAGES], check=True)
    unfinished.rename(place)
    return place


def emulated_with_servers(platform: Platform, folder: Path) -> dict[str, str]:
    """Returns the environment of the folder's programs, in which this machine's servers are found before its own."""
    here = folder / "servers"
    here.mkdir(exist_ok=True)
    for name in SERVERS:
        (here / name).unlink(missing_ok=True)
        (here / name).symlink_to(server(name))
    environment = emulated_environment(folder)
    return {**environment, "PATH": f"{here}{os.pathsep}{environment['PATH']}"}


def play_python(platform: Platform, wheel: Path, names: tuple[str, ...]) -> None:
    """Runs files of Python's tests with the native module of a wheel. Raises `CalledProcessError` if one fails."""
    checkout = make_checkout(platform)
    (name,) = (name for name in contents(wheel) if name.startswith("pinyon/_native") and name.endswith(".so"))
    (checkout / "python" / name).write_bytes(contents(wheel)[name])
    places = (checkout / "python", make_packages(platform), checkout / "verify")
    environment = {
        **emulated_with_servers(platform, make_emulated(platform)),
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(os.cpu_count())]
    words += ["--dist", "loadscope", f"--timeout={PATIENCE}", *(f"tests/test_{name}.py" for name in names)]
    subprocess.run(words, cwd=checkout / "python", env=environment, check=True)


def play_ruby(platform: Platform, native: Path, names: tuple[str, ...], **variables: str) -> None:
    """Runs files of Ruby's tests with the native half of a gem, in an environment with these variables.

    Raises `CalledProcessError` if one fails.
    """
    checkout = make_checkout(platform)
    shutil.copy(native, checkout / "ruby" / "lib" / "pinyon" / "native.so")
    files = [word for name in names for word in ("-r", f"./test/test_{name}.rb")]
    words = ["ruby", "-I", "lib", "-I", "test", *files, "-e", ""]
    environment = emulated_with_servers(platform, make_emulated(platform))
    subprocess.run(words, cwd=checkout / "ruby", env={**environment, **variables}, check=True)


def play_perl(platform: Platform, distribution: Path, names: tuple[str, ...]) -> None:
    """Runs files of Perl's tests where the distribution is built. Raises `CalledProcessError` if one fails."""
    environment = emulated_with_servers(platform, make_emulated(platform))
    # By itself, prove would start the program that the emulator runs.
    words = ["prove", "--exec", "perl -Iblib/lib -Iblib/arch", "-j", str(os.cpu_count())]
    words += [f"t/{name}.t" for name in names]
    subprocess.run(words, cwd=distribution, env=environment, check=True)
