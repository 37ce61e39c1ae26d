"""Builds the gems: the source gem, which cargo builds when it is installed, and a precompiled one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from commands import DIST, REPOSITORY, TARGET, own_version, run, separate_debug_information
from crossing import cross_environment, program_of_llvm
from emulation import emulated_environment
from platforms import Platform
from workspaces import stage_workspace

RUBY = REPOSITORY / "ruby"
#: The crates in the source gem: their folders there, and here.
CRATES = {"proto": "proto", "net": "net", "cache": "cache", "locks": "locks", "native": "ruby/native"}


def build_source_gem(scratch: Path, environment: Mapping[str, str]) -> None:
    """Builds the gem of sources into dist."""
    source = stage_library(scratch / "source")
    shutil.copytree(RUBY / "ext", source / "ext")
    stage_workspace(source / "ext" / "pinyon", CRATES, environment)
    build_gem(source, ["gem"], environment)


def build_precompiled_gem(
    platform: Platform, rubies: Mapping[str, Path], scratch: Path, environment: Mapping[str, str]
) -> None:
    """Builds the gem of a platform into dist, for these versions of Ruby."""
    precompiled = stage_library(scratch / "precompiled")
    for version, ruby in rubies.items():
        native = precompiled / "lib" / "pinyon" / version / "native.so"
        native.parent.mkdir()
        shutil.copy(build_native(platform, ruby, environment), native)
        debug = DIST / "debug" / f"{gem_name(platform)}-ruby{version}.debug"
        separate_debug_information(native, debug, environment, program_of_llvm("objcopy"))
    if not platform.emulator:
        return build_gem(precompiled, ["gem"], environment)
    # The gem is for the platform of the Ruby that packs it.
    (ruby, *_) = rubies.values()
    return build_gem(precompiled, [str(ruby), "-S", "gem"], emulated_environment(ruby.parent, environment))


def gem_name(platform: Platform) -> str:
    """Returns the name of the precompiled gem, without its ending."""
    return f"pinyon-{own_version()}-{platform.gem}"


def stage_library(stage: Path) -> Path:
    """Copies what both gems have, without what was built in the checkout."""
    for folder in ("lib", "sig"):
        shutil.copytree(RUBY / folder, stage / folder, ignore=shutil.ignore_patterns("native.*"))
    for file in (RUBY / "pinyon.gemspec", RUBY / "README.md", REPOSITORY / "CHANGELOG.md"):
        shutil.copy(file, stage)
    for licence in REPOSITORY.glob("LICENSE-*"):
        shutil.copy(licence, stage)
    return stage


def build_native(platform: Platform, ruby: Path, environment: Mapping[str, str]) -> Path:
    """Builds the native half for one Ruby, with the debug information still inside."""
    here = {**cross_environment(platform, environment), "RUBY": str(ruby)}
    if platform.emulator:
        # What reads Ruby's headers takes those of this machine's C library otherwise.
        here[f"BINDGEN_EXTRA_CLANG_ARGS_{platform.variable}"] = f"--sysroot={ruby.parent}"
    words = ("--package", "pinyon-ruby", "--target", platform.triple)
    run("cargo", "build", "--release", "--locked", *words, environment=here)
    return TARGET / platform.triple / "release" / "libpinyon_ruby.so"


def build_gem(stage: Path, gem: list[str], environment: Mapping[str, str]) -> None:
    """Builds the gem of a folder; what RubyGems warns of fails it."""
    for path in stage.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    run(*gem, "build", "--strict", "--silent", "pinyon.gemspec", environment=environment, folder=stage)
    (built,) = stage.glob("*.gem")
    shutil.copy(built, DIST)
