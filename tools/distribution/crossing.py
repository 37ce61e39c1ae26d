"""How Rust and C are compiled for another platform: zig compiles and links C, and Rust's library comes from cargo.

`rustup target add` installs Rust's library for a platform. Where that was not done, nightly Rust compiles the library
from its sources (the component rust-src).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from commands import TOOLS, WORK
from platforms import MUSL, Platform

#: Rust's library, with unwinding: a panic of the core becomes an exception of the host.
LIBRARY = ("-Z", "build-std=std,panic_unwind")
LIBRARY_AND_TESTS = ("-Z", "build-std=std,panic_unwind,test")
NIGHTLY = {"RUSTUP_TOOLCHAIN": "nightly"}


def has_library(platform: Platform) -> bool:
    """Whether the default Rust has its library for a platform."""
    asked = ("rustc", "--print", "target-libdir", "--target", platform.triple)
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.returncode == 0 and any(Path(done.stdout.strip()).glob("libstd-*"))


def library_options(platform: Platform, *, tests: bool = False) -> list[str]:
    """Returns what cargo needs to be told when it compiles Rust's library itself."""
    if has_library(platform):
        return []
    return list(LIBRARY_AND_TESTS if tests else LIBRARY)


def cross_environment(platform: Platform, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which cargo compiles for a platform. Ends the program if there is no Rust for it."""
    compiler, archiver = write_program(platform, "cc"), write_program(platform, "ar")
    here = {
        **environment,
        f"CC_{platform.variable}": str(compiler),
        f"CXX_{platform.variable}": str(write_program(platform, "c++")),
        f"AR_{platform.variable}": str(archiver),
        f"CARGO_TARGET_{platform.variable.upper()}_LINKER": str(compiler),
    }
    if platform == MUSL:
        # Libraries are loaded by programs that use the system's musl. What links and starts programs is zig's.
        add_flags(here, "-Clink-self-contained=no")
    if has_library(platform):
        return here
    if not (source_of_library() / "std").is_dir():
        sys.exit(
            f"dist: Rust has no library for {platform.triple}; install it with: rustup target add {platform.triple}\n"
            "dist: or its sources with: rustup toolchain install nightly --component rust-src"
        )
    return {**here, **NIGHTLY}


def add_flags(environment: dict[str, str], *flags: str) -> None:
    """Adds flags to those that rustc gets for every crate."""
    before = environment.get("CARGO_ENCODED_RUSTFLAGS", "")
    environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join([*filter(None, [before]), *flags])


def source_of_library() -> Path:
    """Returns the folder of the sources of nightly Rust's library, whether it exists or not."""
    asked = ("rustc", "+nightly", "--print", "sysroot")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return Path(done.stdout.strip() or "/nonexistent") / "lib" / "rustlib" / "src" / "rust" / "library"


def write_program(platform: Platform, tool: str) -> Path:
    """Writes a program that is zig's compiler ("cc", "c++") or archiver ("ar") for a platform."""
    program = WORK / f"{tool}-{platform.zig}"
    program.parent.mkdir(parents=True, exist_ok=True)
    target = f" -target {platform.zig}" if tool != "ar" else ""
    # It looks for zig's Python on PATH.
    program.write_text(f'#!/bin/sh\nPATH={TOOLS}:$PATH exec {TOOLS}/cargo-zigbuild zig {tool} --{target} "$@"\n')
    program.chmod(0o755)
    return program


def program_of_llvm(name: str) -> str:
    """Returns LLVM's program for files of every platform, or the system's own, which reads those of this machine."""
    return shutil.which(f"llvm-{name}") or name
