"""Stubs of macOS's frameworks: they name symbols for the linker, and have no code.

Checking certificates on macOS asks two frameworks of the system. The linker has to know only that a framework has a
symbol, and where the framework is on a Mac. The crates that declare a framework's symbols for Rust say both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from commands import WORK, run
from platforms import Platform

#: The frameworks, and the crates that declare their symbols.
FRAMEWORKS = {"CoreFoundation": "core-foundation-sys", "Security": "security-framework-sys"}
#: A macro declares the names of algorithms; that it also finds constants, which are no symbols, does no harm.
DECLARED = re.compile(r"^ +pub (?:fn|static) (\w+)|\b(kSec\w+)", re.MULTILINE)
STUB = """--- !tapi-tbd
tbd-version:     4
targets:         [ arm64-macos ]
install-name:    '/System/Library/Frameworks/{name}.framework/Versions/A/{name}'
exports:
  - targets:         [ arm64-macos ]
    symbols:         [ {symbols} ]
...
"""


def write_frameworks(platform: Platform, environment: Mapping[str, str]) -> Path:
    """Writes a stub of each framework and returns the folder in which a linker finds them."""
    folder = WORK / "frameworks"
    for name, crate in FRAMEWORKS.items():
        symbols = sorted(declared_symbols(source_of(crate, platform, environment)))
        stub = folder / f"{name}.framework" / f"{name}.tbd"
        stub.parent.mkdir(parents=True, exist_ok=True)
        text = STUB.format(name=name, symbols=", ".join(f"_{symbol}" for symbol in symbols))
        # What is linked with it is linked anew when it is newer.
        if not stub.exists() or stub.read_text() != text:
            stub.write_text(text)
    return folder


def declared_symbols(crate: Path) -> set[str]:
    """Returns the functions and variables that a crate's sources declare."""
    texts = (source.read_text() for source in (crate / "src").rglob("*.rs"))
    return {symbol or variable for text in texts for symbol, variable in DECLARED.findall(text)}


def source_of(crate: str, platform: Platform, environment: Mapping[str, str]) -> Path:
    """Returns the folder of a crate's sources, in the version that Pinyon is built with."""
    words = ("metadata", "--locked", "--format-version=1", "--filter-platform", platform.triple)
    packages = json.loads(run("cargo", *words, environment=environment))["packages"]
    (manifest,) = (package["manifest_path"] for package in packages if package["name"] == crate)
    return Path(manifest).parent
