"""The crates compile for macOS. Nothing is linked or packed for it, and nothing of it can be run here."""

from __future__ import annotations

import subprocess

from artefacts import REPOSITORY
from commands import WORK, build_environment
from crossing import cross_environment
from platforms import MACOS

OLDEST_PYTHON = "3.9"
CRATES = ("pinyon-proto", "pinyon-net", "pinyon-cache", "pinyon-locks", "pinyon-capi", "pinyon-python")


def test_the_crates_compile() -> None:
    environment = cross_environment(MACOS, {**build_environment(), "CARGO_TARGET_DIR": str(WORK / "tests")})
    environment["PYO3_CROSS_PYTHON_VERSION"] = OLDEST_PYTHON
    named = [word for crate in CRATES for word in ("-p", crate)]
    words = ["cargo", "check", "--locked", "-q", "--target", MACOS.triple, *named]
    subprocess.run(words, cwd=REPOSITORY, env=environment, check=True)
