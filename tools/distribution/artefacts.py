"""What is known of the files in dist."""

from __future__ import annotations

import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

from platforms import X86_64, Platform

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"
#: Bounds of sizes are given in it.
MEGABYTE = 1_000_000
#: Of a wheel, on every platform.
LARGEST_WHEEL = 3.6 * MEGABYTE
SDISTS = sorted(DIST.glob("pinyon-[0-9]*.tar.gz"))
LICENCES = {name: (REPOSITORY / name).read_bytes() for name in ("LICENSE-APACHE", "LICENSE-MIT")}


def wheels_of(platform: Platform) -> list[Path]:
    """Returns the wheels of a platform."""
    return sorted(path for path in DIST.glob("*.whl") if platform.has_wheel(path.name))


def pythons_of(platform: Platform) -> list[str]:
    """Returns the tags of the Pythons that a platform has wheels for, such as "cp311"."""
    return sorted(wheel.name.split("-")[3] for wheel in wheels_of(platform))


WHEELS = wheels_of(X86_64)


def contents(archive: Path) -> dict[str, bytes]:
    """Returns the files of a wheel or a source distribution, by their paths in it."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as sdist:
        files = (member for member in sdist.getmembers() if member.isfile())
        return {member.name.partition("/")[2]: _bytes(sdist, member) for member in files}


def _bytes(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def metadata(archive: Path) -> Message:
    """Returns the metadata of a wheel or a source distribution; its payload is the long description."""
    files = contents(archive)
    name = next(name for name in files if name == "PKG-INFO" or name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(files[name].decode())


def library(wheel: Path) -> bytes:
    """Returns the native module of a wheel."""
    (name,) = (name for name in contents(wheel) if name.startswith("pinyon/_native") and name.endswith(".so"))
    return contents(wheel)[name]
