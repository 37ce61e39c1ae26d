"""Finds the versions of Ruby that the precompiled gem has a native half for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
#: Debian's release after this one: its Ruby is newer, and its programs run in a folder by chroot.
SUITE = "trixie"
FOLDER = REPOSITORY / "target" / "dist" / SUITE
#: Its Ruby, and what tests of the gem use there.
PACKAGES = ("ruby", "ruby-dev", "ruby-async", "memcached", "redis-server")
VERSION = "print RbConfig::CONFIG.values_at('MAJOR', 'MINOR').join('.') if RUBY_ENGINE == 'ruby'"


def find_rubies() -> dict[str, Path]:
    """Returns programs that start Ruby, by its version, such as "3.1"."""
    found = [Path(path) for path in (shutil.which("ruby"),) if path]
    if FOLDER.exists():
        found.append(FOLDER / "ruby")
    versions = {
        subprocess.run([str(ruby), "-e", VERSION], capture_output=True, text=True, check=True).stdout: ruby
        for ruby in reversed(found)
    }
    return {version: versions[version] for version in sorted(versions) if version}


def make_folder() -> str | None:
    """Installs Debian's next release into a folder, unless it is there. Returns why it cannot, if so."""
    if FOLDER.exists():
        return None
    if os.getuid() != 0 or not shutil.which("mmdebstrap"):
        return "Ruby of Debian's next release needs root and mmdebstrap"
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    unfinished = FOLDER.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    include = f"--include={','.join(PACKAGES)}"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", include, SUITE, str(unfinished)]
    subprocess.run(command, check=True)
    write_starter(unfinished)
    unfinished.rename(FOLDER)
    return None


def write_starter(folder: Path) -> None:
    """Writes a program that starts the folder's Ruby, with paths of its headers that hold outside."""
    starter = folder / "ruby"
    starter.write_text(f'#!/bin/sh\nexec chroot {FOLDER} ruby -r /outside.rb "$@"\n')
    starter.chmod(0o755)
    (folder / "outside.rb").write_text(
        'require "rbconfig"\n'
        'RbConfig::CONFIG.each_value { |path| path.gsub!(%r{(?<=\\A|-I)/usr/include}, "'
        + f'{FOLDER}/usr/include") }}\n'
    )
