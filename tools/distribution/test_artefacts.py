"""What is in dist is what may be uploaded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from artefacts import DIST, LARGEST_WHEEL, LICENCES, REPOSITORY, SDISTS, WHEELS, contents, library, metadata, pythons_of
from commands import said
from interpreters import find_interpreters
from platforms import X86_64
from trying import oldest_glibc

#: The C library that manylinux_2_17 promises to be enough, and what of it may be needed.
GLIBC = (2, 17)
C_LIBRARIES = {
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}


def by_name(path: Path) -> str:
    return path.name


each_wheel = pytest.mark.parametrize("wheel", WHEELS, ids=by_name)
each_archive = pytest.mark.parametrize("archive", [*WHEELS, *SDISTS], ids=by_name)


@pytest.fixture
def binary(wheel: Path, tmp_path: Path) -> Path:
    """The native module of a wheel, as a file."""
    file = tmp_path / "_native.so"
    file.write_bytes(library(wheel))
    return file


def test_there_is_one_sdist_and_a_wheel_for_each_python() -> None:
    assert len(SDISTS) == 1, "run make dist first"
    assert pythons_of(X86_64) == sorted(find_interpreters())


@each_wheel
def test_a_wheel_is_for_old_systems(wheel: Path, binary: Path) -> None:
    assert f"manylinux_{GLIBC[0]}_{GLIBC[1]}_" in wheel.name
    assert oldest_glibc(binary) <= GLIBC
    assert set(re.findall(r"NEEDED\s+(\S+)", said("objdump", "-p", binary))) <= C_LIBRARIES


@each_wheel
def test_a_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST_WHEEL


@each_wheel
def test_debug_information_is_beside_the_wheel(wheel: Path, binary: Path) -> None:
    sections = said("objdump", "--section-headers", "--wide", binary)
    assert ".debug_" not in sections
    assert ".symtab" not in said("readelf", "--section-headers", "--wide", binary)
    debug = DIST / "debug" / f"{wheel.stem}.debug"
    assert ".gnu_debuglink" in sections
    assert debug.name.encode() in binary.read_bytes()
    assert ".debug_line" in said("objdump", "--section-headers", "--wide", debug)


@each_wheel
def test_a_wheel_tells_nothing_of_the_machine_it_was_built_on(wheel: Path) -> None:
    for path in (REPOSITORY, Path.home()):
        assert f"{path}/".encode() not in library(wheel)


@each_archive
def test_the_metadata_is_complete(archive: Path) -> None:
    found = metadata(archive)
    assert found["Name"] == "pinyon"
    assert re.search(
        f'^version = "{re.escape(found["Version"])}"$', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE
    )
    assert found["Author"] == "The Pinyon developers"
    assert found["License-Expression"] == "MIT OR Apache-2.0"
    assert found["Keywords"]
    assert {url.split(",")[0] for url in found.get_all("Project-URL", [])} >= {"Documentation", "Changelog", "Source"}
    assert found["Description-Content-Type"].startswith("text/markdown")
    assert str(found.get_payload()).strip() == (REPOSITORY / "python" / "README.md").read_text().strip()


@each_archive
def test_the_licences_are_inside(archive: Path) -> None:
    assert set(metadata(archive).get_all("License-File", [])) == set(LICENCES)
    files = contents(archive)
    for name, text in LICENCES.items():
        inside = f"licenses/{name}" if archive.suffix == ".whl" else name
        assert [content for path, content in files.items() if path.endswith(inside)][:1] == [text]


@each_archive
def test_an_index_accepts_it(archive: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(archive)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@each_wheel
def test_a_wheel_lists_the_crates_it_is_made_of(wheel: Path) -> None:
    (bill,) = (text for name, text in contents(wheel).items() if "/sboms/" in name)
    assert b'"pinyon-cache"' in bill
    assert b'"rustls"' in bill
