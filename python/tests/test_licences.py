"""Every crate that Pinyon depends on has a licence that `deny.toml` allows."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")

ROOT = Path(__file__).parents[2]


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether the user of a crate under an SPDX expression can keep to the allowed licences."""
    words = re.findall(r"\(|\)|OR|AND|[^()\s/]+(?: WITH [^()\s]+)?", expression.replace("/", " OR "))
    logic = {"(": "(", ")": ")", "OR": "or", "AND": "and"}
    return bool(eval(" ".join(logic.get(word, str(word in allowed)) for word in words)))


def test_every_licence_is_allowed():
    if not shutil.which("cargo"):
        pytest.skip("needs cargo")
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    packages = json.loads(answer)["packages"]

    refused = {each["name"]: each["license"] for each in packages if not is_allowed(each["license"] or "none", allowed)}

    assert packages
    assert refused == {}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("MIT/GPL-3.0", True),
        ("GPL-3.0", False),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR GPL-3.0) AND Zlib", True),
        ("Zlib WITH LLVM-exception", False),
    ],
)
def test_expressions(expression: str, expected: bool):
    assert is_allowed(expression, {"MIT", "Zlib"}) is expected
