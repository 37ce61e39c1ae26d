"""Takes from crates what only their tests and examples need, for a distribution that is built from source."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

#: A module in a file of its own that exists in tests only.
IN_TESTS = r"""^#\[cfg\((?:test|any\(test, feature = "testing"\))\)\]\n"""
DECLARED = re.compile(IN_TESTS + r"(?:pub(?:\(\w+\))? )?mod (\w+);$", re.MULTILINE)
#: Tests at the end of a file. The lines before them keep their numbers.
AT_THE_END = re.compile(r"\n#\[cfg\(test\)\]\nmod tests \{\n(?:(?!\}\n).*\n)*\}\n\Z")
#: Tables of a manifest that a build does not need.
TABLES = re.compile(r"^\[(?:dev-dependencies|\[example\])\]\n(?:(?!\[).*\n)*", re.MULTILINE)


def trim(crate: Path) -> None:
    """Removes tests and examples of a crate, and licences, which the distribution has once."""
    manifest = crate / "Cargo.toml"
    manifest.write_text(TABLES.sub("", manifest.read_text()))
    texts = {source: source.read_text() for source in (crate / "src").rglob("*.rs")}
    unneeded = [
        file for source, text in texts.items() for name in DECLARED.findall(text) for file in module_files(source, name)
    ]
    for source, text in texts.items():
        source.write_text(AT_THE_END.sub("", text))
    for file in unneeded:
        remove(file)
    shutil.rmtree(crate / "examples", ignore_errors=True)
    for licence in crate.glob("LICENSE-*"):
        licence.unlink()


def module_files(source: Path, name: str) -> Iterator[Path]:
    """Yields the file and the folder of a module that a source file declares."""
    folder = source.parent if source.stem in ("lib", "mod") else source.with_suffix("")
    yield from (path for path in (folder / f"{name}.rs", folder / name) if path.exists())


def remove(path: Path) -> None:
    """Removes a file or a folder; one that went with its folder is no error."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
