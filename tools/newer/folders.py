"""Installs a release of Debian into a folder, and runs programs in it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
#: Where the next releases, and what is built for them, are kept.
NEWER = REPOSITORY / "target" / "newer"
#: What a program in a folder needs of this machine to use the network.
NETWORK = ("/etc/resolv.conf", "/etc/ssl/certs", "/etc/pip.conf")
#: Variables that name programs and libraries of this machine.
OWN = ("VIRTUAL_ENV", "PYO3_PYTHON", "PYTHONPATH", "RUBYLIB", "RUBYOPT", "GEM_HOME", "GEM_PATH")
#: Mounts of a command's own, and processes that end with it.
ALONE = ("unshare", "--mount", "--propagation", "private")
TOGETHER = ("--pid", "--fork", "--kill-child")


def environment() -> dict[str, str]:
    """Returns this machine's environment without what names its own programs."""
    kept = {name: value for name, value in os.environ.items() if name not in OWN}
    return {**kept, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


class CannotInstall(Exception):
    """A release cannot be installed here; says what it needs."""


def headers_outside(folder: Path) -> str:
    """Returns what tells a folder's Ruby where its headers are outside: it was built to be in /usr."""
    return (
        'require "rbconfig"\n'
        f'RbConfig::CONFIG.each_value {{ |path| path.gsub!(%r{{(?<=\\A|-I)/usr/include}}, "{folder}/usr/include") }}\n'
    )


@dataclass(frozen=True)
class Folder:
    """A release of Debian in a folder.

    Args:
        suite: the release's name.
        path: the folder.
        packages: what is installed there; others make the folder anew.
        processor: Debian's name of another processor, whose packages are unpacked and not set up; empty for this one.
    """

    suite: str
    path: Path
    packages: tuple[str, ...]
    processor: str = ""

    def install(self) -> None:
        """Makes the folder, unless it is there. Raises `CannotInstall`."""
        if self._is_complete():
            return
        if os.getuid() != 0 or not shutil.which("mmdebstrap"):
            raise CannotInstall(
                f"Debian {self.suite} in a folder needs root and mmdebstrap (apt-get install mmdebstrap)"
            )
        unfinished = self.path.with_suffix(".unfinished")
        for remains in (unfinished, self.path):
            shutil.rmtree(remains, ignore_errors=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The index of a release that is not finished may be older than it says that it may be.
        options = ["--quiet", "--aptopt=Acquire::Check-Valid-Until false"]
        # What sets packages up would have to run here.
        options += (
            ["--variant=extract", f"--architectures={self.processor}"] if self.processor else ["--variant=minbase"]
        )
        command = ["mmdebstrap", *options, f"--include={','.join(self.packages)}", self.suite, str(unfinished)]
        try:
            subprocess.run(command, check=True)
        except subprocess.CalledProcessError as error:
            raise CannotInstall(f"mmdebstrap ended with status {error.returncode} for Debian {self.suite}") from None
        (unfinished / "installed").write_text(self._list())
        unfinished.rename(self.path)

    def _is_complete(self) -> bool:
        listed = self.path / "installed"
        return listed.exists() and listed.read_text() == self._list()

    def _list(self) -> str:
        return " ".join(sorted(self.packages)) + "\n"

    def starter(self, name: str, program: str) -> Path:
        """Writes a program, beside the folder's own, that starts one of the folder's, and returns its path.

        What it starts sees the folder alone, and is for builds to ask.
        """
        starter = self.path / name
        starter.write_text(f'#!/bin/sh\nexec chroot {shlex.quote(str(self.path))} {program} "$@"\n')
        starter.chmod(0o755)
        return starter

    def ruby(self) -> Path:
        """Returns a starter of the folder's Ruby, with paths of its headers that hold outside."""
        (self.path / "outside.rb").write_text(headers_outside(self.path))
        return self.starter("ruby", "ruby -r /outside.rb")

    def entering(self, over: Mapping[Path, Path]) -> list[str]:
        """Returns the words before a command that runs it in the folder, with the checkout at its usual path.

        The mounts exist for that command alone, so none is left behind, however it ends.

        Args:
            over: folders, and those of the checkout that they are seen in the place of.
        """
        return [*ALONE, "sh", "-ec", f'{self._mounts(over)}\nexec chroot "$folder" "$@"', "sh"]

    def running(self, over: Mapping[Path, Path]) -> list[str]:
        """Returns the same, but for a command whose processes all end when it does, or when it is killed."""
        # The first process of a namespace takes in orphans, so it is none that a test looks at.
        return [*ALONE, *TOGETHER, "sh", "-ec", f'{self._mounts(over)}\nchroot "$folder" "$@" || exit $?', "sh"]

    def _mounts(self, over: Mapping[Path, Path]) -> str:
        """Returns the shell's commands that make the folder complete."""
        bound = {REPOSITORY: REPOSITORY, **over}
        lines = [
            f"folder={shlex.quote(str(self.path))}",
            'mount -t tmpfs tmpfs "$folder/tmp"',
            'mount -t proc proc "$folder/proc"',
            'mount --rbind /dev "$folder/dev"',
        ]
        for here in filter(os.path.exists, NETWORK):
            make = "mkdir -p" if os.path.isdir(here) else "touch"
            lines.append(f'{make} "$folder{here}"; mount --bind {here} "$folder{here}"')
        for path, seen in bound.items():
            place = f'"$folder"{shlex.quote(str(seen))}'
            lines.append(f"mkdir -p {place}; mount --bind {shlex.quote(str(path))} {place}")
        return "\n".join(lines)
