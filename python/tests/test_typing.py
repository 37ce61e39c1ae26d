"""The stubs match the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
#: What stubtest says, from Python 3.12 on, of methods that return awaitables and are marked as coroutine functions.
MARKED = 'is an "async def" function at runtime, but not in the stub'


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
    options = ["--concise", "--ignore-missing-stub", "--mypy-config-file", "pyproject.toml"]
    # Other versions find fewer differences.
    options += [] if sys.version_info[:2] == (3, 11) else ["--ignore-unused-allowlist"]
    result = run("mypy.stubtest", "pinyon", *options, "--allowlist", "tests/stubtest_allowlist.txt")
    lines = [line for line in result.stdout.splitlines() if not line.endswith(MARKED)]
    assert result.returncode == 0 or (lines == [] and result.stdout), "\n".join([*lines, result.stderr])
