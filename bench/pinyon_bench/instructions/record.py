"""The record: a file in the repository with the instructions of each operation, and the conditions of counting."""

from __future__ import annotations

import json
import math
import platform
import re
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..contestant import BENCH_FOLDER, REPOSITORY
from ..results import Instructions
from .callgrind import CountError

if TYPE_CHECKING:
    from collections.abc import Collection

FILE = BENCH_FOLDER / "instructions.json"
#: By how much of the recorded figure an operation may grow without a failure.
TOLERANCE = 0.05
UPDATE = "make bench-instructions"
VERSION = re.compile(r"\d+(\.\d+)+")
SOURCES = ("proto", "net", "cache", "locks", "capi", "python", "ruby", "perl", "bench/c", "Cargo.toml", "Cargo.lock")
#: Conditions that only the rows of one language depend on. The name of a row begins with its language, or is Python's.
#: Those of C depend on the compiler.
LANGUAGES = ("Python", "ruby", "perl", "cc")


@dataclass(frozen=True)
class Record:
    """The instructions of each operation, the commit they were counted at, and what else they depend on."""

    commit: str
    built_with: dict[str, str]
    instructions: dict[str, int]


@dataclass(frozen=True)
class Change:
    """An operation's recorded figure and its present one; None where it has none."""

    name: str
    before: int | None
    now: int | None

    @property
    def growth(self) -> float:
        """Its growth as a part of the recorded figure; infinite where there is nothing to compare."""
        return self.now / self.before - 1 if self.before and self.now else math.inf

    @property
    def fails(self) -> bool:
        """Whether the record must be rewritten because of it."""
        return self.growth > TOLERANCE

    @property
    def gains(self) -> bool:
        """Whether it fell so far that the record no longer protects the gain."""
        return self.growth < -TOLERANCE

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.name} is not in the record"
        if self.now is None:
            return f"{self.name} is in the record and was not counted"
        return f"{self.name} took {self.before:,} instructions, and takes {self.now:,} now ({self.growth:+.1%})"


def counted() -> Instructions:
    """Returns the counts in the repository, for a result document."""
    record = read(FILE)
    return Instructions(record.commit, record.instructions)


def read(path: Path) -> Record:
    """Returns the record in a file; raises CountError when the file is none."""
    try:
        return Record(**json.loads(path.read_text()))
    except (OSError, TypeError, ValueError) as error:
        raise CountError(
            f"{path} is not a record of instructions: {error}; remove it and write another: {UPDATE}"
        ) from error


def write(instructions: dict[str, int], path: Path) -> None:
    """Writes a record of the new counts."""
    record = Record(commit(), built_with(), instructions)
    path.write_text(json.dumps(asdict(record), indent=2) + "\n")


def commit() -> str:
    """Returns the checked-out commit, and whether Pinyon's sources have changed since.

    A record that changes together with the code is counted before the commit, so it names the commit before.
    """
    name = _output("git", "-C", str(REPOSITORY), "rev-parse", "--short=12", "HEAD")
    changed = _output("git", "-C", str(REPOSITORY), "status", "--porcelain", "--", *SOURCES)
    return f"{name} and changes" if changed else name


def built_with() -> dict[str, str]:
    """Returns the conditions that figures depend on, besides Pinyon. Figures are comparable if all are equal."""
    return {
        "processor": _processor(),
        "Python": platform.python_version(),
        "glibc": platform.libc_ver()[1],
        **{program: _version(program) for program in ("rustc", "ruby", "perl", "cc", "memcached", "redis-server")},
    }


def _processor() -> str:
    """The C library and Rust's crates choose their code for copying and searching by it."""
    has_avx2 = "avx2" in Path("/proc/cpuinfo").read_text().split()
    return f"{platform.machine()} with AVX2" if has_avx2 else platform.machine()


def _version(program: str) -> str:
    found = VERSION.search(_output(program, "--version"))
    return found[0] if found else "unknown"


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise CountError(f"{command[0]} does not say what is needed for the record: {error}") from error


def language(row: str) -> str | None:
    """Returns the condition, besides those of all rows, that a row depends on."""
    first = row.partition(":")[0]
    if first == "core":
        return None
    condition = "cc" if first == "c" else first
    return condition if condition in LANGUAGES else "Python"


def differences(record: Record) -> dict[str, str]:
    """Returns in words how this machine differs from the one where the record was counted, by condition."""
    here = built_with()
    names = sorted(here.keys() | record.built_with.keys())
    pairs = ((name, record.built_with.get(name, "none"), here.get(name, "none")) for name in names)
    return {name: f"{name} {there} there, {now} here" for name, there, now in pairs if there != now}


def changes(record: Record, counted: dict[str, int], without: Collection[str] = ()) -> list[Change]:
    """Returns how each operation that is recorded or counted has changed, but for those of some languages."""
    names = [*counted, *(name for name in record.instructions if name not in counted)]
    compared = [name for name in names if language(name) not in without]
    return [Change(name, record.instructions.get(name), counted.get(name)) for name in compared]
