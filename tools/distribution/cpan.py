"""Builds the Perl distributions: one whose crates cargo fetches, and one that has them all inside."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import tomllib
from commands import DIST, REPOSITORY, own_version, run
from trimmed import trim
from workspaces import stage_workspace

PERL = REPOSITORY / "perl"
#: The crates in a distribution: their folders in its folder rust, and here.
CRATES = {"proto": "proto", "net": "net", "cache": "cache", "locks": "locks", "capi": "capi"}
#: Tests that play the data of a checkout, and what they are made of.
FOR_CHECKOUTS = {
    *("t/documentation.t", "t/frameworks.t", "t/lock_scenarios.t", "t/rings.t", "t/scenarios.t"),
    *("t/lib/LockPlaying.pm", "t/lib/Playing.pm"),
}
#: The systems that the distribution with all crates is for.
TARGETS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-apple-darwin",
    "x86_64-unknown-freebsd",
)
VENDORED = """[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"""


def build_perl(scratch: Path, environment: Mapping[str, str]) -> None:
    """Builds both distributions into dist."""
    name = f"Pinyon-{own_version()}"
    here = {**environment, "PERL_MM_USE_DEFAULT": "1"}
    stage = scratch / name
    stage_perl(stage, here)
    pack(stage, DIST / f"{name}.tar.gz", here)
    vendored = scratch / f"{name}-vendored"
    shutil.copytree(stage, vendored)
    vendor(vendored / "rust", here)
    pack(vendored, DIST / f"{name}-vendored.tar.gz", here)


def stage_perl(stage: Path, environment: Mapping[str, str]) -> None:
    """Copies what is committed, and the crates."""
    for file in run("git", "ls-files", environment=environment, folder=PERL).splitlines():
        if file.startswith("xt/") or file in FOR_CHECKOUTS:
            continue
        (stage / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PERL / file, stage / file)
    for licence in REPOSITORY.glob("LICENSE-*"):
        shutil.copy(licence, stage)
    stage_workspace(stage / "rust", CRATES, environment)
    for crate in CRATES:
        trim(stage / "rust" / crate)
    run("cargo", "metadata", "--offline", "--format-version=1", environment=environment, folder=stage / "rust")


def vendor(folder: Path, environment: Mapping[str, str]) -> None:
    """Puts all crates into the folder vendor. Those for other systems become empty: most bytes are of them."""
    run("cargo", "vendor", "--locked", "--quiet", "vendor", environment=environment, folder=folder)
    needed: set[tuple[str, str]] = set()
    for target in TARGETS:
        words = ("tree", "--locked", "--prefix", "none", "--edges", "normal,build", "--format", "{p}")
        lines = run("cargo", *words, "--target", target, environment=environment, folder=folder).splitlines()
        for name, version, *_ in map(str.split, filter(None, lines)):
            needed.add((name, version.removeprefix("v")))
    for crate in sorted((folder / "vendor").iterdir()):
        package = tomllib.loads((crate / "Cargo.toml").read_text())["package"]
        if (package["name"], package["version"]) not in needed:
            make_empty(crate)
    (folder / ".cargo").mkdir()
    (folder / ".cargo" / "config.toml").write_text(VENDORED)
    # The lock file names no more what the empty crates needed.
    run("cargo", "metadata", "--offline", "--format-version=1", environment=environment, folder=folder)


def make_empty(crate: Path) -> None:
    """Replaces a crate by one of its name, version and features, with nothing in it."""
    manifest = tomllib.loads((crate / "Cargo.toml").read_text())
    checksum = json.loads((crate / ".cargo-checksum.json").read_text())
    optional = [name for name, details in manifest.get("dependencies", {}).items() if details.get("optional")]
    for table in manifest.get("target", {}).values():
        optional += [name for name, details in table.get("dependencies", {}).items() if details.get("optional")]
    features = sorted({*manifest.get("features", {}), *optional})
    shutil.rmtree(crate)
    (crate / "src").mkdir(parents=True)
    (crate / "src" / "lib.rs").touch()
    package = manifest["package"]
    lines = ["[package]", f'name = "{package["name"]}"', f'version = "{package["version"]}"', 'edition = "2021"']
    lines += ["", "[features]", *(f"{json.dumps(name)} = []" for name in features), ""]
    (crate / "Cargo.toml").write_text("\n".join(lines))
    (crate / ".cargo-checksum.json").write_text(json.dumps({"files": {}, "package": checksum["package"]}))


def pack(stage: Path, archive: Path, environment: Mapping[str, str]) -> None:
    """Writes the metadata that CPAN reads, the list of files, and the archive."""
    write_metadata(stage, environment)
    files = sorted(str(path.relative_to(stage)) for path in stage.rglob("*") if path.is_file())
    (stage / "MANIFEST").write_text("".join(f"{file}\n" for file in sorted({*files, "MANIFEST"})))
    moment = int(environment["SOURCE_DATE_EPOCH"])

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = moment
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with tarfile.open(archive, "w:gz", compresslevel=9) as tar:
        for file in sorted({*files, "MANIFEST"}):
            tar.add(stage / file, f"{stage.name}/{file}", filter=plain)


def write_metadata(stage: Path, environment: Mapping[str, str]) -> None:
    """Writes META.json and META.yml, and removes what was built for that."""
    (stage / "MANIFEST").write_text("".join(f"{file}\n" for file in ("Makefile.PL", "lib/Pinyon.pm", "MANIFEST")))
    subprocess.run(["perl", "Makefile.PL"], cwd=stage, env=environment, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["make", "-s", "metafile"], cwd=stage, env=environment, check=True, stdout=subprocess.DEVNULL)
    folder = next(path.parent for path in stage.glob("*/META.json"))
    for name in ("META.json", "META.yml"):
        shutil.move(folder / name, stage / name)
    shutil.rmtree(folder)
    for name in ("Makefile", "MYMETA.json", "MYMETA.yml"):
        (stage / name).unlink()
