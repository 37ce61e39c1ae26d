"""The crates are complete without the tree: each builds from what would be uploaded."""

from __future__ import annotations

import subprocess
import tarfile

import pytest
from artefacts import LICENCES, REPOSITORY

CRATES = ("pinyon-proto", "pinyon-net", "pinyon-cache", "pinyon-locks")


@pytest.fixture(scope="module")
def packages() -> list[tarfile.TarFile]:
    """The crates, each of which cargo has built from its package."""
    target = REPOSITORY / "target" / "dist" / "crates"
    chosen = [part for crate in CRATES for part in ("--package", crate)]
    command = ["cargo", "package", "--locked", "--allow-dirty", "--quiet", "--target-dir", str(target), *chosen]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    newest = (
        max((target / "package").glob(f"{crate}-*.crate"), key=lambda file: file.stat().st_mtime) for crate in CRATES
    )
    return [tarfile.open(file) for file in newest]


def test_the_crates_have_their_licences_and_say_what_they_are(packages: list[tarfile.TarFile]) -> None:
    for package in packages:
        root = package.getnames()[0].split("/")[0]
        inside = set(package.getnames())
        assert {f"{root}/{name}" for name in (*LICENCES, "README.md", "Cargo.toml")} <= inside
        manifest = package.extractfile(f"{root}/Cargo.toml")
        assert manifest is not None
        text = manifest.read().decode()
        for field in ("authors", "description", "readme", "keywords", "license", "repository", "rust-version"):
            assert f"\n{field} = " in text
