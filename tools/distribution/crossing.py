"""How Rust and C are compiled for another platform: zig compiles and links C, and Rust's library comes from rustup."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from commands import TOOLS, WORK, add_flags
from frameworks import write_frameworks
from platforms import Platform


def cross_environment(
    platform: Platform, environment: Mapping[str, str], *, static_programs: bool = False
) -> dict[str, str]:
    """Returns an environment in which cargo compiles for a platform, and adds Rust's library for it.

    Ends the program if the library cannot be added.

    Args:
        platform: the platform.
        environment: what the builds run in otherwise.
        static_programs: whether programs for musl have its C library inside, instead of loading the system's.
    """
    add_library(platform)
    compiler, archiver = write_program(platform, "cc"), write_program(platform, "ar")
    here = {
        **environment,
        f"CC_{platform.variable}": str(compiler),
        f"CXX_{platform.variable}": str(write_program(platform, "c++")),
        f"AR_{platform.variable}": str(archiver),
        f"CARGO_TARGET_{platform.variable.upper()}_LINKER": str(compiler),
    }
    if platform.is_musl:
        # What starts programs is zig's, of the same musl that it links.
        add_flags(here, "-Clink-self-contained=no", *([] if static_programs else ["-Ctarget-feature=-crt-static"]))
    if platform.is_apple:
        add_flags(here, f"-Lframework={write_frameworks(platform, here)}")
        # A debugger on a Mac reads what it needs from object files, which nobody keeps: the linker is to name none.
        add_flags(here, "-Clink-arg=-Wl,-S")
        here["CARGO_PROFILE_RELEASE_DEBUG"] = "none"
        here["CARGO_PROFILE_RELEASE_STRIP"] = "none"
    return here


def add_library(platform: Platform) -> None:
    """Adds Rust's own library for a platform, unless it is there. Ends the program if it cannot be added."""
    asked = ("rustc", "--print", "target-libdir", "--target", platform.triple)
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode == 0 and any(Path(done.stdout.strip()).glob("libstd-*")):
        return
    add = ("rustup", "target", "add", platform.triple)
    if not shutil.which("rustup") or subprocess.run(add, check=False).returncode != 0:
        sys.exit(f"dist: Rust has no library for {platform.triple}; with a Rust of rustup, run: {' '.join(add)}")


def write_program(platform: Platform, tool: str) -> Path:
    """Writes a program that is zig's compiler ("cc", "c++") or archiver ("ar") for a platform."""
    program = WORK / f"{tool}-{platform.zig}"
    program.parent.mkdir(parents=True, exist_ok=True)
    # Asked for its version, zig for macOS leaves an empty a.o where it is started.
    target = f'[ "$1" = --version ] || set -- -target {platform.zig} "$@"\n' if tool != "ar" else ""
    # It looks for zig's Python on PATH.
    program.write_text(f'#!/bin/sh\n{target}PATH={TOOLS}:$PATH exec {TOOLS}/cargo-zigbuild zig {tool} -- "$@"\n')
    program.chmod(0o755)
    return program


def program_of_llvm(name: str) -> str:
    """Returns LLVM's program for files of every platform, or the system's own, which reads those of this machine."""
    return shutil.which(f"llvm-{name}") or name
