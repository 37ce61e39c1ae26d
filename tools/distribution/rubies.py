"""Finds the versions of Ruby that the precompiled gem has a native half for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from newer.folders import REPOSITORY, CannotInstall, Folder

#: Debian's release after this one: its Ruby is newer. It has what tests of the gem use, and nothing to build it with.
NEXT = Folder(
    "trixie",
    REPOSITORY / "target" / "dist" / "trixie",
    ("ruby", "ruby-dev", "ruby-async", "memcached", "redis-server"),
)
VERSION = "print RbConfig::CONFIG.values_at('MAJOR', 'MINOR').join('.') if RUBY_ENGINE == 'ruby'"


def find_rubies() -> dict[str, Path]:
    """Returns programs that start Ruby, by its version, such as "3.1"."""
    found = [Path(path) for path in (shutil.which("ruby"),) if path]
    if NEXT.path.exists():
        found.append(NEXT.ruby())
    return versions_of(found)


def versions_of(rubies: list[Path]) -> dict[str, Path]:
    """Returns programs that start Ruby by their versions, the first of each."""
    versions = {
        subprocess.run([str(ruby), "-e", VERSION], capture_output=True, text=True, check=True).stdout: ruby
        for ruby in reversed(rubies)
    }
    return {version: versions[version] for version in sorted(versions) if version}


def make_folder() -> str | None:
    """Installs Debian's next release into a folder, unless it is there. Returns why it cannot, if so."""
    try:
        NEXT.install()
    except CannotInstall as reason:
        return str(reason)
    return None
