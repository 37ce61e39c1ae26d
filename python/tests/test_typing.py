"""The stubs match the package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False, timeout=120)


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


def test_the_stubs_agree_with_the_native_module() -> None:
    result = run("mypy.stubtest", "pinyon._native")
    assert result.returncode == 0, result.stdout + result.stderr
