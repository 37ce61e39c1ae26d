"""Wrong wall clocks: a small library, compiled on demand, that intercepts a process's clock."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock_shim.c")


class Skipped(Exception):
    """This cell cannot run here, for the reason in the message."""


class WallClock:
    """The wall clock of processes started with its environment; it can be changed while they run."""

    def __init__(self, folder: Path, name: str = "clock", offset: int = 0) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise Skipped("needs gcc, to build what moves the clock")
        library = folder / "clock_shim.so"
        if not library.exists():
            subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        self._file = folder / name
        #: How far it is ahead of the true clock now, in seconds.
        self.offset = 0
        #: The furthest that it was ahead of the true clock, in seconds.
        self.furthest = 0
        self.move(offset)
        self.environment = {"LD_PRELOAD": str(library), "PINYON_CLOCK": str(self._file)}

    def move(self, seconds: int) -> None:
        """Set its offset from the true clock."""
        self.offset, self.furthest = seconds, max(self.furthest, seconds)
        if self._file.exists():
            with self._file.open("r+b") as file:
                file.write(struct.pack("=q", seconds))
        else:
            self._file.write_bytes(struct.pack("=q", seconds))
