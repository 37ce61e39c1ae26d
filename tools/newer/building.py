"""Builds Pinyon for the languages of a folder, and lays out what is seen there in the place of the checkout's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .folders import NEWER, REPOSITORY, Folder, environment

VENV = REPOSITORY / ".venv"
#: What the tests need. Whatever changes there makes the virtual environment anew.
REQUIREMENTS = (REPOSITORY / "python" / "requirements-test.txt", REPOSITORY / "bench" / "requirements.txt")


def build_ruby(folder: Folder) -> dict[Path, Path]:
    """Builds the gem's native half for the folder's Ruby. Returns the library with it, and where it is seen."""
    library = _cargo("pinyon-ruby", "libpinyon_ruby.so", folder, {"RUBY": str(folder.ruby())})
    return _laid_over(REPOSITORY / "ruby" / "lib", library, Path("pinyon", "native.so"), folder)


def build_python(folder: Folder) -> dict[Path, Path]:
    """Builds Pinyon for the folder's Python, with an environment that has the tests' requirements.

    Returns what is seen in the place of what.
    """
    python = folder.starter("python", "python3")
    asked = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'), sysconfig.get_python_version())"
    suffix, version = _said(str(python), "-c", asked).split()
    building = {"PYO3_PYTHON": str(python), "PYO3_BUILD_EXTENSION_MODULE": "1"}
    library = _cargo("pinyon-python", "libpinyon_native.so", folder, building)
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


def _cargo(package: str, library: str, folder: Folder, languages: Mapping[str, str]) -> Path:
    """Builds a package for a language that these variables name. Each release keeps what was built for it."""
    target = NEWER / f"{folder.suite}-build"
    command = ["cargo", "build", "--release", "--locked", "-q", "-p", package]
    here = {**os.environ, "CARGO_TARGET_DIR": str(target), **languages}
    subprocess.run(command, cwd=REPOSITORY, check=True, env=here)
    return target / "release" / library


def _laid_over(tree: Path, library: Path, place: Path, folder: Folder) -> dict[Path, Path]:
    """Copies a tree of the checkout without what was built in it, and the library into the copy.

    Returns the copy, and the tree that it is seen in the place of.
    """
    copy = NEWER / f"{folder.suite}-{tree.parent.name}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(library, copy / place)
    return {copy: tree}


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
