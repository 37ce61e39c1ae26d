"""The history: every process appends lines to its own file, and the checks read all files together.

A line is a JSON array ``[nanoseconds, process, event, attempt, facts]``. The clock is ``CLOCK_MONOTONIC``, which
all processes of a machine share. Each line is one ``write``, so a killed process leaves only whole lines.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

now = time.monotonic_ns


@dataclass(frozen=True)
class Line:
    """One event.

    Of an attempt: ``invoke`` (names; perhaps which of them are ``read``, permits by pool, ``at_least`` in seconds, the
    ``source``: the attempt that it adopts the lock of, and the ``former``: the attempt that it changes the modes of), ``changing``
    and ``changed`` (sent) of that one, ``granted`` (token), ``believes`` (until), ``begin`` and ``end`` of its
    critical section, ``write`` (name, sent, accepted, order), ``read`` (name, sent, newest, order), ``handed`` (sent, until:
    the lock ends then unless it is adopted), ``release`` (sent), ``released`` (kept), ``lost``,
    ``cancel``, ``late`` (should have continued by now), ``failed`` (error). Of a leadership, which is an attempt, too: ``resigned``,
    ``called`` (what: ``elected`` or ``lost``, token, candidate, since: until now, a callback ran). Of a candidate: ``leads`` (name,
    token, candidate, answered: by then, it had said so). Of a process: ``stall`` (until), ``violation`` (text), ``rated`` (sent,
    count, allowed, and the rate's numbers). Of the world: ``fault`` (kind, until, …).
    """

    at: int
    process: int
    event: str
    attempt: str
    facts: dict[str, Any]


class Recorder:
    """Appends lines to the file of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.process = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.process = os.getpid()
        path = self._folder / f"{self.process}-{now()}.lines"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def after_fork(self) -> None:
        """Called in a forked child: it writes a file of its own."""
        os.close(self._file)
        self._begin_anew()

    def __call__(self, event: str, attempt: str = "", at: int | None = None, **facts: Any) -> None:
        moment = now() if at is None else at
        line = json.dumps([moment, self.process, event, attempt, facts], separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")


def read(folder: Path) -> list[Line]:
    """Return the lines of all processes, ordered by time."""
    lines = []
    for path in sorted(folder.glob("*.lines")):
        with path.open("rb") as file:
            lines += [Line(*json.loads(text)) for text in file if text.endswith(b"\n")]
    return sorted(lines, key=lambda line: line.at)


def start(folder: Path, until: int) -> None:
    """Let the processes of a world begin, or go on, and work until then."""
    (folder / "start.new").write_text(str(until))
    (folder / "start.new").rename(folder / "start")


def wait_for_start(folder: Path) -> None:
    """Wait until the world begins."""
    path = folder / "start"
    while not path.exists():
        time.sleep(0.005)


def ending(folder: Path) -> int:
    """Return when the world ends, as far as it is known now."""
    return int((folder / "start").read_text())
