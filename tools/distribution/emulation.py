"""Debian of another processor in a folder, whose programs an emulator starts.

The kernel need not know the emulator: each program of the folder is a script that starts it by name. So a program
starts others of the folder as usual, and an interpreter finds itself where it is.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from commands import WORK
from newer.folders import Folder, headers_outside
from platforms import Platform

RELEASE = "bookworm"
PACKAGES = (
    *("python3", "python3-venv", "python3-dev", "ruby", "ruby-dev", "ruby-minitest", "ruby-async", "ruby-eventmachine"),
    *("perl", "libperl-dev", "memcached", "redis-server", "libc6-dev"),
)
#: The release whose emulator is used: that of Debian 12 ends when a forked child of a program with threads starts one.
RELEASE_OF_EMULATOR = "trixie"
ELF = b"\x7fELF"
#: Added to the name of a program when a script takes its place.
EMULATED = ".emulated"


def make_emulated(platform: Platform) -> Path:
    """Makes the folder of a platform, unless it is there, and returns it. Raises `CannotInstall`."""
    folder = Folder(RELEASE, WORK / platform.name, PACKAGES, platform.debian)
    folder.install()
    wrap_programs(folder.path, make_emulator(platform))
    let_redis_start(folder.path)
    return folder.path


def make_emulator(platform: Platform) -> Path:
    """Gets the emulator for a platform, a static program, unless it is there. Raises `CannotInstall`."""
    program = WORK / platform.emulator
    if program.exists():
        return program
    folder = Folder(RELEASE_OF_EMULATOR, WORK / "emulators", ("qemu-user",), "amd64")
    folder.install()
    shutil.copy(folder.path / "usr" / "bin" / platform.emulator, program)
    # It has emulators of thirty processors.
    shutil.rmtree(folder.path)
    return program


def wrap_programs(folder: Path, emulator: Path) -> None:
    """Replaces each program of the folder with a script that starts it through the emulator."""
    for program in sorted((folder / "usr" / "bin").iterdir()):
        if program.is_symlink() or program.name.endswith(EMULATED) or not is_program(program):
            continue
        inside = program.with_name(program.name + EMULATED)
        program.rename(inside)
        words = [str(emulator), "-L", str(folder), "-0"]
        # A program may look at the name that it was started by, as Python does in a virtual environment.
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$0" {shlex.quote(str(inside))} "$@"\n')
        program.chmod(0o755)


def let_redis_start(folder: Path) -> None:
    """Tells the folder's Redis not to look for a fault of arm64's kernels, which it takes an emulator for."""
    program = folder / "usr" / "bin" / "redis-server"
    if not program.is_symlink():
        return
    first, rest = program.read_text().split("\n", 1)
    program.unlink()
    program.write_text(
        f'{first}\ncase "$1" in -v | --version) ;; *) set -- "$@" --ignore-warnings ARM64-COW-BUG ;; esac\n{rest}'
    )
    program.chmod(0o755)


def is_program(path: Path) -> bool:
    """Whether a file is machine code."""
    with path.open("rb") as file:
        return file.read(len(ELF)) == ELF


def emulated_environment(folder: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns an environment in which the folder's programs are found first."""
    own = ("PYTHON", "RUBY", "GEM_", "PYO3", "VIRTUAL_ENV")
    kept = {name: value for name, value in environment.items() if not name.startswith(own)}
    programs = f"{folder / 'usr' / 'bin'}{os.pathsep}{environment['PATH']}"
    return {**kept, "PATH": programs, "RUBYOPT": f"-r{write_places(folder)}"}


def emulated_ruby(folder: Path) -> Path:
    """Returns a program that starts the folder's Ruby, which says where it and its headers are."""
    program = folder / "ruby-for-builds"
    program.write_text(f'#!/bin/sh\nexec {folder}/usr/bin/ruby -r{write_places(folder)} "$@"\n')
    program.chmod(0o755)
    return program


def write_places(folder: Path) -> Path:
    """Writes what tells the folder's Ruby where it and its headers are."""
    places = folder / "places.rb"
    places.write_text(headers_outside(folder) + f'RbConfig::CONFIG["bindir"] = "{folder}/usr/bin"\n')
    return places
