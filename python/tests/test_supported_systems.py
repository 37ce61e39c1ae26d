"""The page of supported systems says what the tests, the packages and the files of the release say."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from interpreters import VERSIONS
from newer.suites import suites

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "supported-systems.md").read_text()


def rows(name: str) -> list[list[str]]:
    """The cells of the table under a mark, without its heading."""
    table = PAGE.split(f"<!-- {name} -->\n")[1].split("\n\n")[0].splitlines()
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table[2:]]


def read(path: str) -> str:
    return (ROOT / path).read_text()


def needs(language: str) -> str:
    return next(row[-1] for row in rows("languages") if row[0] == language)


def test_the_suites_are_those_of_newer_releases() -> None:
    assert {name: about for name, about, _ in rows("suites")} == {name: each.about for name, each in suites(1).items()}


def test_the_interpreters_are_those_that_have_wheels() -> None:
    (cell,) = (row[3] for row in rows("languages") if row[0] == "Python")
    assert tuple(re.findall(r"\d\.\d+t?", cell)) == VERSIONS


@pytest.mark.parametrize(
    ("language", "path", "pattern"),
    [
        ("Python", "python/pyproject.toml", r'requires-python = ">=([\d.]+)"'),
        ("Ruby", "ruby/pinyon.gemspec", r': ">= ([\d.]+)"'),
        ("Rust, to build", "Cargo.toml", r'rust-version = "([\d.]+)"'),
    ],
)
def test_the_oldest_version_is_that_of_the_package(language: str, path: str, pattern: str) -> None:
    oldest = re.search(pattern, read(path))
    assert oldest is not None
    assert f"{oldest[1]} or newer" in needs(language)


def test_the_oldest_perl_is_that_of_the_distribution() -> None:
    oldest = re.search(r"MIN_PERL_VERSION +=> '5\.0*(\d+)'", read("perl/Makefile.PL"))
    assert oldest is not None
    assert f"5.{oldest[1]} or newer" in needs("Perl")


def test_the_frameworks_of_python_are_pinned_in_these_versions() -> None:
    pinned = (read("python/requirements-test.txt") + read("tools/requirements-suites.txt")).lower()
    named = [(name, version) for name, versions in rows("python frameworks") for version in versions.split(", ")]
    assert named
    assert [
        each for each in named if not re.search(rf"^{each[0].lower()}=={re.escape(each[1])}( |$)", pinned, re.M)
    ] == []


def test_the_packages_of_debian_are_installed_by_the_setup() -> None:
    lists = read("tools/debian-packages.txt") + read("tools/debian-packages-compared.txt")
    assert [name for name, *_ in rows("debian") if not re.search(rf"^{re.escape(name)}\b", lists, re.M)] == []


def installed(package: str) -> str:
    """The version of an installed package without Debian's parts of it, or nothing."""
    command = ["dpkg-query", "-W", "-f=${db:Status-Status} ${Version}", package]
    state = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.match(r"installed (?:\d+:)?([\d.]+)", state)
    return found[1] if found else ""


@pytest.mark.parametrize(("package", "version"), [row[:2] for row in rows("debian")])
def test_a_package_of_debian_has_this_version(package: str, version: str) -> None:
    release = Path("/etc/debian_version")
    if not shutil.which("dpkg-query") or not release.exists() or not release.read_text().startswith("12."):
        pytest.skip("the page is about Debian 12")
    here = installed(package)
    if not here:
        pytest.skip(f"{package} is not installed")
    assert f"{here}.".startswith(f"{version}.")


def test_the_commands_are_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))
    named = set(re.findall(r"`(?:\w+=\w+ )?make ([^`]+)`", PAGE))
    assert named
    assert {word for words in named for word in words.split()} <= targets
