"""Builds the gems: the source gem, which cargo builds when it is installed, and a precompiled one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from commands import DIST, REPOSITORY, TARGET, WORK, own_version, run, separate_debug_information
from workspaces import stage_workspace

RUBY = REPOSITORY / "ruby"
#: The crates in the source gem: their folders there, and here.
CRATES = {"proto": "proto", "net": "net", "cache": "cache", "locks": "locks", "native": "ruby/native"}
#: What the native half is built for, and the oldest C library that it runs on.
TRIPLE = "x86_64-unknown-linux-gnu"
GLIBC = "2.17"


def build_gems(rubies: Mapping[str, Path], scratch: Path, environment: Mapping[str, str]) -> None:
    """Builds both gems into dist, the precompiled one for these versions of Ruby."""
    source = stage_library(scratch / "source")
    shutil.copytree(RUBY / "ext", source / "ext")
    stage_workspace(source / "ext" / "pinyon", CRATES, environment)
    build_gem(source, environment)
    precompiled = stage_library(scratch / "precompiled")
    for version, ruby in rubies.items():
        native = precompiled / "lib" / "pinyon" / version / "native.so"
        native.parent.mkdir()
        shutil.copy(build_native(ruby, environment), native)
        separate_debug_information(native, DIST / "debug" / f"pinyon-{own_version()}-ruby{version}.debug", environment)
    build_gem(precompiled, environment)


def stage_library(stage: Path) -> Path:
    """Copies what both gems have, without what was built in the checkout."""
    for folder in ("lib", "sig"):
        shutil.copytree(RUBY / folder, stage / folder, ignore=shutil.ignore_patterns("native.*"))
    for file in (RUBY / "pinyon.gemspec", RUBY / "README.md", REPOSITORY / "CHANGELOG.md"):
        shutil.copy(file, stage)
    for licence in REPOSITORY.glob("LICENSE-*"):
        shutil.copy(licence, stage)
    return stage


def build_native(ruby: Path, environment: Mapping[str, str]) -> Path:
    """Builds the native half for one Ruby, with the debug information still inside."""
    compiler = write_compiler()
    variable = TRIPLE.replace("-", "_")
    here = {
        **environment,
        "RUBY": str(ruby),
        f"CARGO_TARGET_{variable.upper()}_LINKER": str(compiler),
        f"CC_{variable}": str(compiler),
    }
    run("cargo", "build", "--release", "--locked", "--package", "pinyon-ruby", "--target", TRIPLE, environment=here)
    return TARGET / TRIPLE / "release" / "libpinyon_ruby.so"


def write_compiler() -> Path:
    """Writes a program that compiles and links for an old C library; what reads Ruby's headers is the system's."""
    program = WORK / f"cc-glibc-{GLIBC}"
    program.write_text(f'#!/bin/sh\nexec cargo-zigbuild zig cc -- -target x86_64-linux-gnu.{GLIBC} "$@"\n')
    program.chmod(0o755)
    return program


def build_gem(stage: Path, environment: Mapping[str, str]) -> None:
    """Builds the gem of a folder; what RubyGems warns of fails it."""
    for path in stage.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    run("gem", "build", "--strict", "--silent", "pinyon.gemspec", environment=environment, folder=stage)
    (gem,) = stage.glob("*.gem")
    shutil.copy(gem, DIST)
