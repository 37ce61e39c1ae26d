"""The gems in dist are what may be uploaded. RubyGems alone installs them outside the tree, and they work there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from artefacts import DIST, LICENCES, MEGABYTE, REPOSITORY
from commands import build_environment, own_version, said
from rubies import NEXT, find_rubies
from trying import oldest_glibc

SMOKE = Path(__file__).with_name("smoke.rb")
EXTCONF = REPOSITORY / "ruby" / "ext" / "pinyon" / "extconf.rb"
SOURCE = DIST / f"pinyon-{own_version()}.gem"
PRECOMPILED = DIST / f"pinyon-{own_version()}-x86_64-linux.gem"
#: The C library that the precompiled gem is linked for.
GLIBC = (2, 17)
RUBIES = find_rubies()

each_gem = pytest.mark.parametrize("gem", [SOURCE, PRECOMPILED], ids=lambda gem: gem.name)
each_ruby = pytest.mark.parametrize("version", RUBIES)


def contents(gem: Path) -> dict[str, bytes]:
    with tarfile.open(gem) as archive:
        data = archive.extractfile("data.tar.gz")
        with tarfile.open(fileobj=data) as files:
            found = {file.name: files.extractfile(file) for file in files.getmembers() if file.isfile()}
            return {name: file.read() for name, file in found.items() if file is not None}


def specification(gem: Path, expression: str) -> str:
    program = f'require "rubygems/package"; spec = Gem::Package.new(ARGV[0]).spec; print({expression})'
    return said("ruby", "-e", program, gem)


@pytest.fixture
def binary(version: str, tmp_path: Path) -> Path:
    """The native half of the precompiled gem for one version of Ruby, as a file."""
    file = tmp_path / "native.so"
    file.write_bytes(contents(PRECOMPILED)[f"lib/pinyon/{version}/native.so"])
    return file


def test_there_is_a_source_gem_and_a_precompiled_one() -> None:
    assert {SOURCE, PRECOMPILED} <= set(DIST.glob("*.gem")), "run make dist first"


@each_gem
def test_the_metadata_of_a_gem_is_complete(gem: Path) -> None:
    assert specification(gem, "spec.licenses.join(' ')") == "MIT Apache-2.0"
    assert specification(gem, "spec.metadata.keys.sort.join(' ')") == (
        "bug_tracker_uri changelog_uri documentation_uri rubygems_mfa_required source_code_uri"
    )
    assert specification(gem, "spec.dependencies.size") == "0"
    assert specification(gem, "spec.version") == own_version()


def test_each_gem_says_which_versions_of_ruby_it_is_for() -> None:
    versions = [version.split(".") for version in RUBIES]
    newest = f"{versions[-1][0]}.{int(versions[-1][1]) + 1}.dev"
    assert specification(SOURCE, "spec.required_ruby_version") == ">= 3.1"
    assert specification(PRECOMPILED, "spec.required_ruby_version") == f">= {'.'.join(versions[0])}, < {newest}"


@each_gem
def test_a_gem_has_licences_signatures_and_nothing_that_was_built(gem: Path) -> None:
    files = contents(gem)
    assert {name: files[name] for name in LICENCES} == LICENCES
    assert {"README.md", "CHANGELOG.md", "lib/pinyon.rb", "sig/pinyon.rbs"} <= set(files)
    assert not [name for name in files if "/target/" in name or name == "lib/pinyon/native.so"]
    assert ("ext/pinyon/extconf.rb" in files) == (gem == SOURCE)


def test_the_source_gem_is_small_and_locks_what_it_needs_alone() -> None:
    assert SOURCE.stat().st_size < MEGABYTE
    lock = contents(SOURCE)["ext/pinyon/Cargo.lock"].decode()
    assert '"magnus"' in lock
    assert '"pyo3"' not in lock


def test_the_precompiled_gem_is_small() -> None:
    assert PRECOMPILED.stat().st_size < 3.5 * MEGABYTE * len(RUBIES)


@each_ruby
def test_a_native_half_is_stripped_and_for_old_systems(version: str, binary: Path) -> None:
    sections = said("readelf", "--section-headers", "--wide", binary)
    assert ".debug_" not in sections.replace(".gnu_debuglink", "")
    assert ".symtab" not in sections
    assert (DIST / "debug" / f"{PRECOMPILED.stem}-ruby{version}.debug").exists()
    assert oldest_glibc(binary) <= GLIBC
    for path in (REPOSITORY, Path.home()):
        assert f"{path}/".encode() not in binary.read_bytes()


def smoke(version: str, gem: Path, home: Path) -> None:
    """Installs a gem into a home of its own, and uses it."""
    ruby = str(RUBIES[version])
    inside = ruby.startswith(str(NEXT.path))
    # A program in the folder sees what is below the folder.
    place = NEXT.path / "home" if inside else home
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for file in (gem, SMOKE):
        shutil.copy(file, place)
    seen = Path("/home") if inside else place
    environment = {"PATH": os.environ["PATH"], "HOME": str(seen), "GEM_HOME": str(seen)}
    if "CARGO_HOME" in os.environ or not inside:
        environment["CARGO_HOME"] = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
        environment["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
    install = [ruby, "-S", "gem", "install", "--local", "--no-document", str(seen / gem.name)]
    subprocess.run(install, cwd=place, env=environment, check=True)
    subprocess.run([ruby, str(seen / SMOKE.name)], cwd=place, env=environment, check=True)


@each_ruby
def test_the_precompiled_gem_installs_by_itself(version: str, tmp_path: Path) -> None:
    smoke(version, PRECOMPILED, tmp_path / "home")


def test_the_source_gem_installs_with_cargo_alone_and_leaves_nothing_behind(tmp_path: Path) -> None:
    smoke(min(RUBIES), SOURCE, tmp_path / "home")
    assert not list(tmp_path.rglob("target"))
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 25 * MEGABYTE
    for native in tmp_path.rglob("native.so"):
        assert ".symtab" not in said("readelf", "--section-headers", "--wide", native)


@pytest.mark.parametrize(
    ("variables", "program", "sentence"),
    [
        ({"CARGO": "no-cargo"}, "", "pinyon needs Rust 1.85 or newer to be built, and there is no no-cargo"),
        ({"CARGO": "echo cargo 1.63.0 #"}, "", "pinyon needs Rust 1.85 or newer to be built; echo cargo 1.63.0"),
        ({}, "Dir.define_singleton_method(:glob) { |*| [] };", "pinyon needs libclang to be built"),
        ({}, 'Object.send(:remove_const, :RUBY_ENGINE); RUBY_ENGINE = "jruby";', "pinyon needs CRuby"),
        ({}, 'Object.send(:remove_const, :RUBY_ENGINE); RUBY_ENGINE = "truffleruby";', "this is truffleruby."),
    ],
    ids=["cargo-missing", "cargo-old", "libclang-missing", "jruby", "truffleruby"],
)
def test_what_is_missing_is_said_in_a_sentence(
    variables: dict[str, str], program: str, sentence: str, tmp_path: Path
) -> None:
    shutil.copy(EXTCONF, tmp_path)
    shutil.copy(REPOSITORY / "Cargo.toml", tmp_path)
    environment = {name: value for name, value in build_environment().items() if name != "LIBCLANG_PATH"}
    done = subprocess.run(
        ["ruby", "-e", f'{program} load "{tmp_path}/extconf.rb"'],
        cwd=tmp_path,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
