"""Copies crates of this workspace into the sources that other package managers build."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from commands import REPOSITORY, run


def stage_workspace(folder: Path, crates: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Copies crates (their folders there, and here) as a workspace with a lock file of what they need."""
    for inside, here in crates.items():
        for file in packaged(REPOSITORY / here, environment):
            (folder / inside / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / here / file, folder / inside / file)
    members = ", ".join(f'"{name}"' for name in crates)
    manifest = (REPOSITORY / "Cargo.toml").read_text()
    manifest = re.sub(r"^members = .*$", f"members = [{members}]", manifest, flags=re.MULTILINE)
    manifest = re.sub(r"^(default-members|exclude) = .*\n", "", manifest, flags=re.MULTILINE)
    (folder / "Cargo.toml").write_text(manifest)
    shutil.copy(REPOSITORY / "Cargo.lock", folder)
    # It drops what no member needs from the lock file, as a build with --locked demands.
    run("cargo", "metadata", "--offline", "--format-version=1", environment=environment, folder=folder)


def packaged(crate: Path, environment: Mapping[str, str]) -> list[str]:
    """Returns the files that cargo packs of a crate, without those that it makes itself, and without tests."""
    listed = run("cargo", "package", "--list", "--allow-dirty", "--quiet", environment=environment, folder=crate)
    return [
        file for file in listed.splitlines() if file != "Cargo.lock" and (crate / file).is_file() and not tests(file)
    ]


def tests(file: str) -> bool:
    """Whether a file belongs to a module of tests, which the compiler reads for tests alone."""
    return "tests" in Path(file).with_suffix("").parts
