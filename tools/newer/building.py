"""Builds Pinyon for the languages of a folder, and lays out what is seen there in the place of the checkout's own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .folders import NEWER, REPOSITORY, Folder, environment

VENV = REPOSITORY / ".venv"
#: What the tests need. Whatever changes there makes the virtual environment anew.
REQUIREMENTS = (REPOSITORY / "python" / "requirements-test.txt", REPOSITORY / "bench" / "requirements.txt")

#: What MakeMaker leaves in a checkout, which is built for another Perl.
UNBUILT_PERL = ("blib", "Makefile", "MYMETA.*", "Pinyon.c", "*.o", "*.bs", "pm_to_blib")


def build_perl(folder: Folder) -> dict[Path, Path]:
    """Builds the Perl distribution for the folder's Perl. Returns its copy, and where it is seen."""
    target = _target(folder)
    _cargo(["rustc", "--release", "-p", "pinyon-capi", "--lib", "--crate-type", "staticlib"], folder)
    copy = _copied(REPOSITORY / "perl", folder, *UNBUILT_PERL)
    # Its makefile asks cargo, which is not in the folder and has done its work.
    cargo = target / "cargo"
    cargo.write_text(f'#!/bin/sh\n[ "$1" != --version ] || echo {shlex.quote(_said("cargo", "--version"))}\n')
    cargo.chmod(0o755)
    over = {copy: REPOSITORY / "perl"}
    commands = f"cd {REPOSITORY / 'perl'} && perl Makefile.PL >/dev/null && make -s >/dev/null"
    here = {**environment(), "CARGO": str(cargo), "CARGO_TARGET_DIR": str(target)}
    subprocess.run([*folder.running(over), "sh", "-ec", commands], check=True, env=here, timeout=3600)
    return over


def tests_of_c(folder: Folder) -> Path:
    """Returns the folder with links to the tests that `build_c` builds."""
    return NEWER / f"{folder.suite}-c"


def build_c(folder: Folder) -> Path:
    """Builds the tests of the C interface, which call the folder's compiler. Returns the folder of `tests_of_c`."""
    listed = _cargo(["test", "--no-run", "-p", "pinyon-capi", "--message-format=json-render-diagnostics"], folder)
    tests = tests_of_c(folder)
    shutil.rmtree(tests, ignore_errors=True)
    tests.mkdir()
    for test in filter(None, (json.loads(line).get("executable") for line in listed.splitlines())):
        (tests / Path(test).name).symlink_to(test)
    return tests


def build_ruby(folder: Folder) -> dict[Path, Path]:
    """Builds the gem's native half for the folder's Ruby. Returns the library with it, and where it is seen."""
    _cargo(["build", "--release", "-p", "pinyon-ruby"], folder, {"RUBY": str(folder.ruby())})
    library = _target(folder) / "release" / "libpinyon_ruby.so"
    return _laid_over(REPOSITORY / "ruby" / "lib", library, Path("pinyon", "native.so"), folder)


def build_python(folder: Folder) -> dict[Path, Path]:
    """Builds Pinyon for the folder's Python, with an environment that has the tests' requirements.

    Returns what is seen in the place of what.
    """
    python = folder.starter("python", "python3")
    asked = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'), sysconfig.get_python_version())"
    suffix, version = _said(str(python), "-c", asked).split()
    building = {"PYO3_PYTHON": str(python), "PYO3_BUILD_EXTENSION_MODULE": "1"}
    _cargo(["build", "--release", "-p", "pinyon-python"], folder, building)
    library = _target(folder) / "release" / "libpinyon_native.so"
    package = _laid_over(REPOSITORY / "python" / "pinyon", library, Path(f"_native{suffix}"), folder)
    made = _environment(folder, version)
    # The sources of other clients' tests are those that `make setup` has fetched.
    return {**package, made: VENV, VENV / "suites": VENV / "suites"}


def _environment(folder: Folder, version: str) -> Path:
    """Makes a virtual environment for the usual path, unless it is there. Pinyon is in it as in a checkout."""
    made = NEWER / f"{folder.suite}-venv"
    noted = made / "requirements"
    wanted = "".join(file.read_text() for file in REQUIREMENTS)
    if not noted.exists() or noted.read_text() != wanted:
        shutil.rmtree(made, ignore_errors=True)
        (made / "suites").mkdir(parents=True)
        files = " ".join(f"-r {file}" for file in REQUIREMENTS)
        commands = f"python3 -m venv {VENV} && {VENV}/bin/pip install -q --disable-pip-version-check {files}"
        inside = [*folder.running({made: VENV}), "sh", "-ec", commands]
        subprocess.run(inside, check=True, env=environment(), timeout=3600)
        noted.write_text(wanted)
    packages = made / "lib" / f"python{version}" / "site-packages"
    trees = (REPOSITORY / name for name in ("python", "verify", "bench"))
    (packages / "pinyon.pth").write_text("".join(f"{tree}\n" for tree in trees))
    # Frameworks find Pinyon's backends by its entry points.
    described = [str(VENV / "bin" / "maturin"), "pep517", "write-dist-info", "--metadata-directory", str(packages)]
    described += ["--interpreter", str(VENV / "bin" / "python")]
    subprocess.run(
        described, cwd=REPOSITORY / "python", check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return made


def _target(folder: Folder) -> Path:
    """Returns where cargo keeps what it builds for a folder: each release has its own."""
    return NEWER / f"{folder.suite}-build"


def _cargo(command: Sequence[str], folder: Folder, languages: Mapping[str, str] | None = None) -> str:
    """Builds with a command of cargo, for a language that these variables name. Returns what it says."""
    here = {**os.environ, "CARGO_TARGET_DIR": str(_target(folder)), **(languages or {})}
    return _said("cargo", *command, "--locked", "-q", environment=here)


def _laid_over(tree: Path, library: Path, place: Path, folder: Folder) -> dict[Path, Path]:
    """Copies a tree of the checkout without what was built in it, and the library into the copy.

    Returns the copy, and the tree that it is seen in the place of.
    """
    copy = _copied(tree, folder, "*.so", "__pycache__")
    shutil.copy(library, copy / place)
    return {copy: tree}


def _copied(tree: Path, folder: Folder, *without: str) -> Path:
    """Copies a tree of the checkout for a folder, without files of these patterns. Returns the copy."""
    copy = NEWER / f"{folder.suite}-{tree.relative_to(REPOSITORY).parts[0]}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(*without))
    return copy


def _said(*command: str, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
