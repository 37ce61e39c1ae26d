"""Starts contestants and talks to them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .placement import pinned
from .protocol import ProtocolError, decode, encode

REPLY_SECONDS = 120.0
BENCH_FOLDER = Path(__file__).resolve().parent.parent
REPOSITORY = BENCH_FOLDER.parent


class ContestantError(Exception):
    """A contestant ended, hung or wrote something that is not a reply."""


@dataclass(frozen=True)
class Entry:
    """One contestant: its name, the command that runs it, the groups of rows that it takes part in, how to build it."""

    name: str
    command: list[str]
    groups: tuple[str, ...] = ("seed", "size", "multiget", "placement")
    build: str = ""


def all_entries() -> list[Entry]:
    """Returns the contestants in their order; the first one present is what the others are compared with."""
    return [
        _python("Pinyon", "pinyon"),
        _python("pylibmc", "pylibmc"),
        _python("pymemcache", "pymemcache"),
        _python("python-memcached", "python_memcached"),
        _python("libmc", "libmc"),
        _python("meta-memcache", "meta_memcache"),
        Entry("floor", [str(_floor_program())], build="cargo build --release -p pinyon-floor"),
        Entry("bare socket", _python_command("bare_socket"), ("size",)),
    ]


def _python(name: str, module: str) -> Entry:
    return Entry(name, _python_command(module))


def _python_command(module: str) -> list[str]:
    return [sys.executable, "-m", "pinyon_bench.contestants", module]


def _floor_program() -> Path:
    target = os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target"
    return Path(os.environ.get("PINYON_FLOOR") or Path(target) / "release" / "pinyon-floor")


@dataclass
class Contestant:
    """A contestant's process, started at the first request and kept; after a failure the next request starts it anew."""

    entry: Entry
    cores: set[int] | None
    _process: subprocess.Popen[bytes] | None = None
    _errors: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def ask(self, request: dict[str, Any], seconds: float = REPLY_SECONDS) -> dict[str, Any]:
        """Returns the reply to a request; raises ContestantError when there is none within `seconds`."""
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(encode(request))
            process.stdin.flush()
            if not select.select([process.stdout], [], [], seconds)[0]:
                raise ContestantError(f"no reply within {seconds:g} seconds")
            return self._checked(process.stdout.readline())
        except (ContestantError, ProtocolError, OSError) as error:
            self.close()
            raise ContestantError(f"{error}{self._last_words()}") from None

    @property
    def pid(self) -> int:
        """The process id; starts the process if it does not run."""
        return self._running().pid

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            with pinned(self.cores):
                try:
                    self._process = subprocess.Popen(
                        self.entry.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
                    )
                except FileNotFoundError:
                    reason = f"not built: {self.entry.build}" if self.entry.build else "its program does not exist"
                    raise ContestantError(reason) from None
        return self._process

    def _checked(self, line: bytes) -> dict[str, Any]:
        if not line:
            raise ContestantError("ended without a reply")
        reply = decode(line)
        if not isinstance(reply.get("ok"), bool):
            raise ProtocolError("a reply without `ok`")
        return reply

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def close(self) -> None:
        """Ends the process, if there is one: by the end of its input, or else by its id."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
            process.wait(1.0)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            process.kill()
            process.wait()
        process.stdout.close()
