"""What a release needs, says and refuses: the list of its files, the workflows, and the container files."""

from __future__ import annotations

import re
from pathlib import Path

import build
import pytest
from commands import own_version
from complete import PYTHONS, missing, refused
from interpreters import VERSIONS
from platforms import PLATFORMS, Platform

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CONTAINERS = sorted((ROOT / "examples" / "containers").glob("Dockerfile.*"))
ENDINGS = {
    "x86_64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "musl": "musllinux_1_2_x86_64",
    "macos": "macosx_11_0_arm64",
}


def complete_files() -> list[str]:
    wheels = [
        f"pinyon-0.1.0-cp{python.rstrip('t').replace('.', '')}-cp{python.replace('.', '')}-{ending}.whl"
        for python in PYTHONS
        for ending in ENDINGS.values()
    ]
    libraries = [f"pinyon-c-0.1.0-{platform.triple}.tar.gz" for platform in PLATFORMS.values()]
    sources = ["pinyon-0.1.0.tar.gz", "pinyon-0.1.0.gem", "Pinyon-0.1.0.tar.gz", "Pinyon-0.1.0-vendored.tar.gz"]
    return [*wheels, *libraries, *sources]


def test_all_files_are_enough() -> None:
    assert set(ENDINGS) == set(PLATFORMS)
    assert missing("0.1.0", complete_files()) == []


@pytest.mark.parametrize("platform", [each for each in PLATFORMS.values() if not each.gem], ids=lambda each: each.name)
def test_no_ruby_is_looked_for_where_no_gem_is_packed(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Platform] = []
    monkeypatch.setattr(build, "make_emulated", asked.append)
    assert build.rubies_of(platform) == {}
    assert asked == []


def test_each_file_that_is_not_there_is_named() -> None:
    for name in complete_files():
        assert len(missing("0.1.0", [each for each in complete_files() if each != name])) == 1, name


def test_files_of_another_version_are_not_enough() -> None:
    assert len(missing("0.1.1", complete_files())) == len(complete_files())
    assert missing("0.1.0", [name.replace("0.1.0", "0x1.0") for name in complete_files()])


@pytest.mark.parametrize(
    ("tag", "changelog", "expected"),
    [
        ("v0.1.0", "## 0.1.0 - 2026-11-29\n", 0),
        ("v0.1.0", "## [0.1.0]\n", 0),
        ("v0.1.1", "## 0.1.0\n", 1),
        ("0.1.0", "## 0.1.0\n", 1),
        ("v0.1.0", "## Unreleased\n", 1),
        ("v0.2.0", "## Unreleased\n", 2),
    ],
)
def test_a_tag_is_of_the_version_that_the_changelog_describes(tag: str, changelog: str, expected: int) -> None:
    assert len(refused("0.1.0", tag, changelog)) == expected


def test_the_version_is_that_of_the_crates() -> None:
    assert f'version = "{own_version()}"' in (ROOT / "Cargo.toml").read_text()


def test_wheels_are_built_for_these_versions_of_python() -> None:
    """The newest with a global lock comes last, because setup-python makes the last one the default."""
    assert set(PYTHONS) <= set(VERSIONS)
    text = (ROOT / ".github" / "workflows" / "packages.yml").read_text()
    listed = re.search(r"python-version: \|\n((?: +\d\.\d+t?\n)+)", text)
    assert listed is not None
    assert sorted(listed[1].split()) == sorted(PYTHONS)
    assert not listed[1].split()[-1].endswith("t")
    used = re.search(r'python: \[("3\.9".*)\]', text)
    assert used is not None
    assert re.findall(r'"(.*?)"', used[1]) == list(PYTHONS)


def test_the_workflow_of_packages_installs_what_make_dist_needs() -> None:
    """It does not run as root, so the make target cannot install them."""
    text = (ROOT / ".github" / "workflows" / "packages.yml").read_text()
    installed = re.search(r"apt-get install -y --no-install-recommends (ruby .*)", text)
    assert installed is not None
    listed = (ROOT / "tools" / "distribution" / "debian-packages.txt").read_text().splitlines()
    assert {line.split()[0] for line in listed if not line.startswith("#")} <= set(installed[1].split())


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_pins_actions_and_names_targets(workflow: Path) -> None:
    text = workflow.read_text()
    actions = [name for name in re.findall(r"uses: (\S+)", text) if not name.startswith("./")]
    assert [name for name in actions if not re.search(r"@(v\d[\d.]*|release/v1)$", name)] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"run: make ([a-z-]+)$", text, re.M)) <= targets
    assert set(re.findall(r"(tools/\S+\.py)", text)) <= {
        str(path.relative_to(ROOT)) for path in ROOT.glob("tools/**/*.py")
    }


def test_a_workflow_has_no_rights_that_a_job_did_not_ask_for() -> None:
    assert len(WORKFLOWS) == 3
    assert [path.name for path in WORKFLOWS if "\npermissions: {}\n" not in path.read_text()] == []


def test_the_suites_of_newer_releases_run_each_week() -> None:
    from newer.suites import suites

    listed = re.search(r"suite: \[(.*)\]", (ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert listed is not None
    assert set(listed[1].split(", ")) == set(suites(1))


def test_the_container_of_debian_installs_what_the_page_installs() -> None:
    page = re.search(r"apt-get install -y git (.*)", (ROOT / "docs" / "install.md").read_text())
    assert page is not None
    build = CONTAINERS[1].read_text().split("\nFROM ")[1]
    assert CONTAINERS[1].name == "Dockerfile.debian"
    assert set(page[1].split()) <= set(build.split())


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda path: path.name)
def test_a_container_says_how_it_is_built_and_does_not_run_as_root(container: Path) -> None:
    text = container.read_text()
    assert f"#   docker build -f {container.relative_to(ROOT)} -t pinyon .\n" in text
    assert re.findall(r"^USER (\S+)$", text.split("\nFROM ")[-1], re.M) == ["65534"]
