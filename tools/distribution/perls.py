"""Builds the Perl distribution for the Perl of another platform, with the C library that dist has for it."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from artefacts import DIST
from commands import own_version
from crossing import write_program
from platforms import Platform

NAME = f"Pinyon-{own_version()}"
#: Stands for cargo, whose work is done: it tells its version.
CARGO = '#!/bin/sh\n[ "$1" != --version ] || exec cargo "$@"\n'


def install_perl(platform: Platform, library: Path, folder: Path, at: Path, environment: Mapping[str, str]) -> Path:
    """Builds and installs the distribution. Returns the folder that it is built in, with its tests.

    Args:
        platform: the platform.
        library: its C library, unpacked.
        folder: the platform's system, whose Perl starts by its name.
        at: where it is built, and installed in the folder `local`.
        environment: what the folder's programs run in.
    """
    with tarfile.open(DIST / f"{NAME}.tar.gz") as archive:
        archive.extractall(at, filter="data")
    built = at / "built" / "release"
    built.mkdir(parents=True)
    shutil.copy(library / "lib" / "libpinyon.a", built)
    cargo = at / "cargo"
    cargo.write_text(CARGO)
    cargo.chmod(0o755)
    perl, compiler = folder / "usr" / "bin" / "perl", write_program(platform, "cc")
    # Each is a folder and a link to it, by the whole release and by its first two numbers.
    own, common = (min((folder / "usr").glob(place)) for place in ("lib/*/perl/5.*", "share/perl/5.*"))
    settings = {
        **{"INSTALL_BASE": at / "local", "CC": compiler, "LD": compiler},
        **{"PERL": perl, "FULLPERL": perl, "PERL_ARCHLIB": own, "PERL_LIB": common, "PERL_INC": own / "CORE"},
        # For a header that is not of the C library.
        "DEFINE": f"-idirafter {folder / 'usr' / 'include'}",
    }
    configure = ["perl", "Makefile.PL", *(f"{name}={value}" for name, value in settings.items())]
    # Zig's linker knows no --exclude-libs, which hides what is the library's own.
    make = ["make", "-s", "OTHERLDFLAGS=-Wl,--gc-sections -Wl,-z,nodelete"]
    here = {**environment, "CARGO": str(cargo), "CARGO_TARGET_DIR": str(built.parent)}
    for command in (configure, make, [*make, "pure_install"]):
        subprocess.run(command, cwd=at / NAME, env=here, check=True)
    return at / NAME
