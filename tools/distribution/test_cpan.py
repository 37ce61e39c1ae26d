"""The Perl distributions in dist install outside the tree by cpanm alone, and work there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from artefacts import DIST, MEGABYTE
from commands import own_version

SMOKE = Path(__file__).with_name("smoke.pl")
NAME = f"Pinyon-{own_version()}"
FETCHING = DIST / f"{NAME}.tar.gz"
VENDORED = DIST / f"{NAME}-vendored.tar.gz"

each = pytest.mark.parametrize("archive", [FETCHING, VENDORED], ids=lambda archive: archive.name)


def contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        found = {entry.name.partition("/")[2]: tar.extractfile(entry) for entry in tar.getmembers() if entry.isfile()}
        return {name: file.read() for name, file in found.items() if file is not None}


@each
def test_the_list_of_files_is_complete(archive: Path) -> None:
    files = contents(archive)
    assert sorted(files["MANIFEST"].decode().split()) == sorted(files)
    assert {"Makefile.PL", "Pinyon.xs", "lib/Pinyon/Cache.pm", "README", "Changes", "LICENSE-MIT"} <= set(files)
    metadata = json.loads(files["META.json"])
    assert (metadata["name"], metadata["version"].removeprefix("v")) == ("Pinyon", own_version())


@each
def test_rust_comes_without_its_tests(archive: Path) -> None:
    ours = {
        name: text for name, text in contents(archive).items() if name.startswith("rust/") and "/vendor/" not in name
    }
    sources = {name: text.decode() for name, text in ours.items()}
    assert {"rust/cache/src/lib.rs", "rust/net/src/fork.rs", "rust/capi/include/pinyon.h"} <= set(sources)
    assert not [name for name in sources if "/tests" in name or "/examples/" in name or "LICENSE" in name]
    assert not [name for name, text in sources.items() if "\nmod tests {\n" in text or "[dev-dependencies]" in text]


def test_sizes() -> None:
    assert FETCHING.stat().st_size < 0.9 * MEGABYTE
    assert VENDORED.stat().st_size < 12 * MEGABYTE


def test_without_cargo_it_says_so(tmp_path: Path) -> None:
    with tarfile.open(FETCHING) as tar:
        tar.extractall(tmp_path, filter="data")
    environment = {**os.environ, "CARGO": "no-such-cargo"}
    words = ["perl", "Makefile.PL"]
    done = subprocess.run(words, cwd=tmp_path / NAME, env=environment, capture_output=True, text=True, check=True)
    assert "Rust's cargo, version 1.85 or later" in done.stdout
    assert not (tmp_path / NAME / "Makefile").exists()


@each
def test_it_installs_and_works(archive: Path, tmp_path: Path) -> None:
    if shutil.which("cpanm") is None:
        pytest.skip("cpanm is not installed")
    home = Path.home()
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"},
        "HOME": str(tmp_path),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(home / ".rustup")),
        "CARGO_HOME": str(tmp_path / "cargo"),
        **({"CARGO_NET_OFFLINE": "true"} if archive == VENDORED else {}),
    }
    local = tmp_path / "local"
    # Both have the same tests of their own: once is enough.
    options = ["--notest"] if archive == VENDORED else []
    subprocess.run(["cpanm", *options, "-l", local, archive], env=environment, check=True, timeout=1800)
    said = subprocess.run(
        ["perl", *(f"-I{folder}" for folder in libraries(local)), SMOKE, local],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert f"smoke: Pinyon {own_version()} works" in said


def libraries(local: Path) -> list[Path]:
    library = local / "lib" / "perl5"
    name = subprocess.run(
        ["perl", "-MConfig", "-e", "print $Config{archname}"], capture_output=True, text=True, check=True
    )
    return [library / name.stdout, library]
