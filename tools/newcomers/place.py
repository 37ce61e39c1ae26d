"""A fresh system in a folder, in which one newcomer's lines run, and which is gone afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from newer.folders import ALONE, REPOSITORY, TOGETHER, Folder

WORK = REPOSITORY / "target" / "newcomers"
#: What a container of Debian 12 begins with.
DEBIAN = Folder("bookworm", WORK / "debian", ("apt",))
CERTIFICATES = "/network.crt"
#: What a program needs of this machine to use its network, and where it finds that.
OUTSIDE = {Path("/etc/resolv.conf"): "/etc/resolv.conf", Path("/etc/ssl/certs/ca-certificates.crt"): CERTIFICATES}
INSIDE = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "HOME": "/root",
    "TERM": "dumb",
}
NOTHING: Mapping[str, str] = {}


class System(Protocol):
    """The files of a system in a folder."""

    @property
    def path(self) -> Path:
        """The folder."""

    def install(self) -> None:
        """Makes the folder, unless it is there. Raises `CannotInstall`."""


class Place:
    """A system, as it is when nothing has been installed, with a checkout's committed files to clone.

    Args:
        name: of the folder with what the newcomer changes.
        system: the files that all newcomers find.
        shell: what reads the lines.
    """

    def __init__(self, name: str, system: System = DEBIAN, shell: str = "bash") -> None:
        system.install()
        self._system, self._shell = system, shell
        self.path = WORK / name
        shutil.rmtree(self.path, ignore_errors=True)
        for part in ("changes", "overlay", "seen"):
            (self.path / part).mkdir(parents=True)

    def run(
        self,
        line: str,
        *,
        folder: str,
        user: int = 0,
        network: bool = True,
        more: Mapping[str, str] = NOTHING,
        outside: str = "",
    ) -> str:
        """Runs a line of a shell and returns what it prints. Raises `CalledProcessError` if it fails.

        Args:
            line: what is typed.
            folder: where.
            user: the number of the user who types it.
            network: whether it sees this machine's network, and not one of its own.
            more: variables beside the usual ones.
            outside: a line that this machine's shell runs before, on the same network. What it starts ends, too.
        """
        # CARGO_PROFILE_WHEEL_LTO=off makes a play shorter.
        faster = {name: value for name, value in os.environ.items() if name.startswith("CARGO_PROFILE_")}
        variables = {**INSIDE, **self._of_the_network(), **faster, **more}
        words = [f"{name}={value}" for name, value in variables.items()]
        # What it starts in the background is to end with its folder.
        alone = [*ALONE, *TOGETHER, *([] if network else ["--net"])]
        identity = [f"--userspec={user}:{user}"] if user else []
        inside = ["chroot", *identity, str(self.path / "seen"), "env", "-i", *words, self._shell, "-ec"]
        loopback = "" if network else "ip link set lo up\n"
        before = f"{self._mounts()}\n{loopback}{outside}\n"
        script = f"{before}exec {shlex.join(inside)} {shlex.quote(f'cd {shlex.quote(folder)}; {line}')}"
        done = subprocess.run(
            [*alone, "bash", "-ec", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, line, done.stdout)
        return done.stdout

    def remove(self) -> None:
        """Deletes what the newcomer changed."""
        shutil.rmtree(self.path)

    def _mounts(self) -> str:
        seen = shlex.quote(str(self.path / "seen"))
        layers = f"lowerdir={self._system.path},upperdir={self.path / 'changes'},workdir={self.path / 'overlay'}"
        lines = [
            f"mount -t overlay overlay -o {shlex.quote(layers)} {seen}",
            f"mount -t proc proc {seen}/proc",
            f"mount --rbind /dev {seen}/dev",
            f"mkdir -p {seen}/checkout && mount --bind {shlex.quote(str(REPOSITORY))} {seen}/checkout",
        ]
        for here, inside in OUTSIDE.items():
            if here.exists():
                lines.append(f"touch {seen}{inside} && mount --bind {here} {seen}{inside}")
        return "\n".join(lines)

    @staticmethod
    def _of_the_network() -> dict[str, str]:
        """Programs look for certificates in different places; a newcomer's machine needs none of these."""
        named = ("PIP_CERT", "SSL_CERT_FILE", "CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO")
        return dict.fromkeys(named, CERTIFICATES) if all(path.exists() for path in OUTSIDE) else {}


def export(into: Path) -> None:
    """Copies what is committed of the checkout into a folder."""
    command = ["git", "archive", "--format=tar", "HEAD"]
    into.mkdir(parents=True, exist_ok=True)
    archived = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "x", "-C", str(into)], input=archived.stdout, check=True)
