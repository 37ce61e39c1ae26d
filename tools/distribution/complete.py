#!/usr/bin/env python3
"""Fails unless dist has all that a release uploads: `complete.py [TAG]`. A tag has to be of this version."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from commands import DIST, REPOSITORY, own_version
from platforms import PLATFORMS

#: The versions of CPython with wheels; a `t` has no global lock.
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")


def main() -> None:
    """Prints what is missing; the exit status is 1 if something is."""
    version = own_version()
    wrong = missing(version, [path.name for path in DIST.glob("*")])
    if len(sys.argv) > 1:
        wrong += refused(version, sys.argv[1], (REPOSITORY / "CHANGELOG.md").read_text())
    if wrong:
        sys.exit("\n".join(f"complete: {each}" for each in wrong))


def missing(version: str, names: Iterable[str]) -> list[str]:
    """Returns what the files with these names lack.

    Args:
        version: of the release.
        names: of the files in dist.
    """
    there = set(names)
    files = (
        f"pinyon-{version}.tar.gz",
        f"pinyon-{version}.gem",
        f"Pinyon-{version}.tar.gz",
        f"Pinyon-{version}-vendored.tar.gz",
        *(f"{platform.c_library(version)}.tar.gz" for platform in PLATFORMS.values()),
    )
    lacking = [f"dist has no {name}" for name in files if name not in there]
    for python in PYTHONS:
        tag = f"cp{python.rstrip('t').replace('.', '')}-cp{python.replace('.', '')}"
        for platform in PLATFORMS.values():
            if not any(platform.has_wheel(name, version=version, tag=tag) for name in there):
                lacking.append(f"dist has no wheel of Python {python} for {platform.name}")
    return lacking


def refused(version: str, tag: str, changelog: str) -> list[str]:
    """Returns why a tag cannot be released.

    Args:
        version: of the checkout.
        tag: for example "v0.1.0".
        changelog: its text, which has to have a heading of the version.
    """
    reasons = [] if tag == f"v{version}" else [f"the tag {tag} is not of version {version}"]
    if not re.search(rf"^## \[?{re.escape(version)}\b", changelog, re.MULTILINE):
        reasons.append(f"CHANGELOG.md has no heading of version {version}")
    return reasons


if __name__ == "__main__":
    main()
