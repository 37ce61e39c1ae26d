"""The commands that build a distribution, and what they run in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"
#: Where what only a distribution needs is kept: its tools, and what is built with other flags than for the tests.
WORK = REPOSITORY / "target" / "dist"
TOOLS = WORK / "tools" / "bin"
TARGET = WORK / "target"


def build_environment() -> dict[str, str]:
    """Returns an environment that keeps this machine's paths and clock out of the files."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYO3_PYTHON", "VIRTUAL_ENV")}
    cargo = Path(environment.get("CARGO_HOME") or Path.home() / ".cargo")
    renamed = {cargo / "registry" / "src": "crates", REPOSITORY: "pinyon"}
    flags = (f"--remap-path-prefix={path}={name}" for path, name in renamed.items())
    committed = ("git", "-C", str(REPOSITORY), "log", "-1", "--format=%ct")
    return {
        **environment,
        "PATH": f"{TOOLS}{os.pathsep}{environment['PATH']}",
        "CARGO_TARGET_DIR": str(TARGET),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "SOURCE_DATE_EPOCH": subprocess.run(committed, capture_output=True, text=True, check=True).stdout.strip(),
    }


def add_flags(environment: dict[str, str], *flags: str) -> None:
    """Adds flags to those that rustc gets for every crate."""
    before = environment.get("CARGO_ENCODED_RUSTFLAGS", "")
    environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join([*filter(None, [before]), *flags])


def own_version() -> str:
    """Returns the version that is to be released."""
    found = re.search(r'^version = "(.*)"$', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def run(*command: str | Path, environment: Mapping[str, str], folder: Path = REPOSITORY) -> str:
    """Runs a command, shows its errors and returns its output; ends the program when it fails."""
    words = [str(part) for part in command]
    try:
        done = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    except FileNotFoundError:
        sys.exit(f"dist: {command[0]} is missing; run make dist, which installs it.")
    except subprocess.CalledProcessError as error:
        sys.exit(f"dist: {Path(command[0]).name} failed with status {error.returncode}: {error.stdout}")
    return done.stdout


def said(*command: str | Path) -> str:
    """Returns what a program prints; its errors are shown. Raises `CalledProcessError` if it fails."""
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True).stdout


def separate_debug_information(library: Path, debug: Path, environment: Mapping[str, str], objcopy: str) -> None:
    """Moves what debuggers and profilers need of a library into a file, to which the library keeps a link."""
    debug.parent.mkdir(parents=True, exist_ok=True)
    run(objcopy, "--only-keep-debug", "--compress-debug-sections", library, debug, environment=environment)
    run(objcopy, "--strip-unneeded", f"--add-gnu-debuglink={debug}", library, environment=environment)
