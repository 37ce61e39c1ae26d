"""The stubs match the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    # stubtest looks at everything that a module has imported, Django's settings too.
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "django.conf.global_settings"}
    return subprocess.run(
        command, cwd=HERE.parent, env=environment, capture_output=True, text=True, check=False, timeout=500
    )


def check(path: Path, cache: Path) -> str:
    options = ["--strict", "--show-error-codes", "--no-error-summary", "--config-file=", "--cache-dir", str(cache)]
    return run("mypy", *options, str(path)).stdout


def test_a_typed_program_uses_the_whole_api(tmp_path: Path) -> None:
    assert check(HERE / "typed_sample.py", tmp_path) == ""


def test_mistakes_are_found(tmp_path: Path) -> None:
    path = HERE / "typed_wrongly.py"
    lines = path.read_text().splitlines()
    expected = {number for number, line in enumerate(lines, 1) if re.search(r"  # [a-z-]+$", line)}
    found = {int(number) for number in re.findall(r"typed_wrongly\.py:(\d+): error", check(path, tmp_path))}
    assert found == expected


def test_the_stubs_agree_with_the_package() -> None:
    options = ["--ignore-missing-stub", "--mypy-config-file", "pyproject.toml"]
    result = run("mypy.stubtest", "pinyon", *options, "--allowlist", "tests/stubtest_allowlist.txt")
    assert result.returncode == 0, result.stdout + result.stderr
