"""The result document: everything as it was measured. It is written first; everything shown comes from it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

FORMAT = 3
Part = TypeVar("Part")


class ResultError(Exception):
    """A file is not a result document of this format."""


@dataclass(frozen=True)
class Machine:
    """The machine of a run."""

    cpu: str
    cores: int
    kernel: str
    system: str


@dataclass(frozen=True)
class ContestantInfo:
    """Who took part; `absent` says why it could not, and is empty otherwise."""

    name: str
    version: str = ""
    configuration: str = ""
    absent: str = ""


@dataclass(frozen=True)
class RowInfo:
    """What a row is; `unit` names what its operations are.

    Plots put these on their axes: `operation`, `size` (of the value, in bytes), `concurrency` (coroutines or workers at
    once; 1: one call after another), `keys` (locked or fetched at once; of pairs, how many) and `servers`. They are 0 or
    empty where a row has none.
    """

    name: str
    group: str
    unit: str
    about: str
    operation: str = ""
    size: int = 0
    concurrency: int = 0
    keys: int = 0
    servers: int = 1


@dataclass(frozen=True)
class Gap:
    """Why a contestant has no figures in a row; `cannot` when its client lacks the operation."""

    row: str
    contestant: str
    reason: str
    cannot: bool


@dataclass(frozen=True)
class Latency:
    """How long single calls took, in seconds, in one cell."""

    mean: float
    median: float
    p99: float
    longest: float


@dataclass(frozen=True)
class Sample:
    """One cell in one round: operations, and seconds by the clock, in user code and in the kernel."""

    round: int
    row: str
    contestant: str
    operations: int
    wall: float
    user: float
    system: float
    latency: Latency | None = None


@dataclass(frozen=True)
class Syscalls:
    """System calls of the client per call in steady state, by name."""

    contestant: str
    row: str
    per_call: dict[str, float]


@dataclass(frozen=True)
class Memory:
    """Resident memory of a contestant's process in kilobytes, before and after something."""

    contestant: str
    what: str
    before: int
    after: int
    note: str = ""


@dataclass(frozen=True)
class ServerWork:
    """What Redis counted in one cell: its commands by name, those of them that clients sent, the microseconds that these
    took with the scripts inside them, and how often it read from a socket.
    """

    round: int
    row: str
    contestant: str
    cycles: int
    calls: dict[str, int]
    sent: dict[str, float]
    microseconds: float
    reads: int


@dataclass(frozen=True)
class Handovers:
    """How often processes acquired a lock in one cell, and how often from another process while they waited."""

    round: int
    row: str
    contestant: str
    taken: int
    from_another: int


@dataclass(frozen=True)
class Instructions:
    """How many instructions operations of Pinyon's take, counted at a commit by the verb `instructions`."""

    commit: str
    counts: dict[str, int]


@dataclass(frozen=True)
class Measured:
    """The results of one timed cell."""

    sample: Sample
    work: ServerWork | None = None
    handovers: Handovers | None = None


@dataclass(frozen=True)
class Target:
    """One target: `ROW: what it must reach`, what was measured, and whether that meets it."""

    text: str
    measured: str
    met: bool
    spread: str = ""

    @property
    def row(self) -> str:
        """The row or group that must reach it."""
        return self.text.partition(": ")[0]

    @property
    def wanted(self) -> str:
        """What the row must reach."""
        return self.text.partition(": ")[2]


@dataclass
class Document:
    """One run of the benchmark. `verdicts` are the targets as they were judged, where only medians are left to show."""

    created: str
    command: str
    placement: str
    rounds: int
    machine: Machine
    versions: dict[str, str]
    contestants: list[ContestantInfo]
    rows: list[RowInfo]
    gaps: list[Gap] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    syscalls: list[Syscalls] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    server_work: list[ServerWork] = field(default_factory=list)
    handovers: list[Handovers] = field(default_factory=list)
    instructions: Instructions | None = None
    verdicts: list[Target] = field(default_factory=list)
    format: int = FORMAT

    def __post_init__(self) -> None:
        self._cells: dict[tuple[str, str], list[Sample]] = {}
        self._indexed = 0

    def cell(self, row: str, contestant: str) -> list[Sample]:
        """Returns the samples of one cell; none when it is empty."""
        for sample in self.samples[self._indexed :]:
            self._cells.setdefault((sample.row, sample.contestant), []).append(sample)
        self._indexed = len(self.samples)
        return self._cells.get((row, contestant), [])

    def present(self) -> list[str]:
        """Returns the names of the contestants that took part."""
        return [contestant.name for contestant in self.contestants if not contestant.absent]

    def rows_of(self, group: str) -> list[RowInfo]:
        """Returns the rows of one group."""
        return [row for row in self.rows if row.group == group]

    def gap(self, row: str, contestant: str) -> Gap | None:
        """Returns why a cell is empty, or None when it is not."""
        return next((gap for gap in self.gaps if (gap.row, gap.contestant) == (row, contestant)), None)


def write(document: Document, path: Path) -> None:
    """Writes the document as JSON; makes the folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields_of = ",\n".join(f"{json.dumps(name)}: {_written(value)}" for name, value in asdict(document).items())
    path.write_text(f"{{\n{fields_of}\n}}\n")


def _written(value: Any) -> str:
    """Returns JSON with a line for each item of a list."""
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f" {json.dumps(item)}" for item in value) + "\n]"


def read(path: Path) -> Document:
    """Returns the document in a file; raises ResultError when there is none."""
    try:
        raw = json.loads(path.read_text())
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ResultError(f"{path}: not JSON") from None
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ResultError(f"{path}: not a benchmark result of format {FORMAT}")
    return _document(raw, path)


def _document(raw: dict[str, Any], path: Path) -> Document:
    parts: dict[str, Callable[[dict[str, Any]], Any]] = {
        "contestants": partial(_part, ContestantInfo),
        "rows": partial(_part, RowInfo),
        "gaps": partial(_part, Gap),
        "samples": _sample,
        "syscalls": partial(_part, Syscalls),
        "memory": partial(_part, Memory),
        "server_work": partial(_part, ServerWork),
        "handovers": partial(_part, Handovers),
        "verdicts": partial(_part, Target),
    }
    try:
        lists: dict[str, Any] = {name: [part(item) for item in raw[name]] for name, part in parts.items()}
        counted = raw.get("instructions")
        parts_of_one = {
            "machine": _part(Machine, raw["machine"]),
            "instructions": None if counted is None else _part(Instructions, counted),
        }
        return _part(Document, {**raw, **lists, **parts_of_one})
    except (KeyError, TypeError) as error:
        raise ResultError(f"{path}: a field is missing or of the wrong type: {error}") from None


def _sample(raw: dict[str, Any]) -> Sample:
    latency = raw.get("latency")
    return _part(Sample, {**raw, "latency": None if latency is None else _part(Latency, latency)})


def _part(kind: type[Part], raw: dict[str, Any]) -> Part:
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    unknown = set(raw) - known
    if unknown:
        raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return kind(**raw)


def this_machine() -> Machine:
    """Returns what the kernel says of the machine."""
    return Machine(_cpu_model(), os.cpu_count() or 1, f"{platform.system()} {platform.release()}", _system_name())


def _cpu_model() -> str:
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _system_name() -> str:
    names = [line.partition("=")[2].strip('"') for line in _lines("/etc/os-release") if line.startswith("PRETTY_NAME=")]
    return names[0] if names else platform.system()


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []
