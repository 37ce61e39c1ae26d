"""What an index shows of the packages, as far as it needs no build; `make test-dist` looks at those that are built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pinyon

REPOSITORY = Path(__file__).resolve().parents[2]
WORKSPACE = (REPOSITORY / "Cargo.toml").read_text()
LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")


def test_all_packages_have_one_version() -> None:
    package = re.search(r'^\[workspace\.package\]\nversion = "(.+)"$', WORKSPACE, re.MULTILINE)
    assert package is not None
    dependencies = re.findall(r'^pinyon-(?:proto|net|cache|locks) = .*version = "(.+)"', WORKSPACE, re.MULTILINE)
    assert dependencies == [package[1]] * 4
    assert pinyon.__version__ == package[1]


@pytest.mark.parametrize("package", ["proto", "net", "cache", "locks", "python"])
def test_each_package_has_a_readme_and_the_licences(package: str) -> None:
    assert (REPOSITORY / package / "README.md").is_file()
    for name in LICENCES:
        assert (REPOSITORY / package / name).read_bytes() == (REPOSITORY / name).read_bytes()


@pytest.mark.parametrize("package", ["proto", "net", "cache", "locks", "python"])
def test_the_links_of_a_readme_lead_somewhere_from_an_index(package: str) -> None:
    links = re.findall(r"\]\((.+?)\)", (REPOSITORY / package / "README.md").read_text())
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
