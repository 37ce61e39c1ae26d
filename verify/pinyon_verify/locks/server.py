"""A redis-server for the verification, which can be started, paused, killed and restarted."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from ..ports import free_port
from .clock import WallClock
from .resp import Connection, ServerSaid

PROGRAM = "redis-server"
START_SECONDS = 20.0

#: What a server keeps when it is killed.
PERSISTENCE = {
    "none": ["--save", "", "--appendonly", "no"],
    "rdb": ["--save", "1 1", "--appendonly", "no"],
    "aof": ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"],
    # All that it was told, which is also what it did. It writes before it answers.
    "journal": (
        ["--save", "", "--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", "no"]
        + ["--auto-aof-rewrite-percentage", "0", "--rdbcompression", "no"]
    ),
}


class Server:
    """A server on a free local port, with a Unix socket beside it."""

    def __init__(self, folder: Path, persistence: str = "none", options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.port = free_port()
        #: The port by which others know it: its own, or that of a proxy.
        self.public = self.port
        #: The address from which it connects to others.
        self.source = "127.0.0.1"
        #: How often it was started without its data.
        self.generation = 0
        #: Short, because the kernel limits the path to a hundred bytes.
        self.socket = str(folder / "s")
        self.options = (*PERSISTENCE[persistence], *options)
        self._process: subprocess.Popen[bytes] | None = None
        #: The environment for the next start.
        self.environment: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def ports(self) -> list[int]:
        """The ports on which others reach it."""
        return [self.port]

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def data(self, generation: int) -> Path:
        """Return where it keeps its data when it has been started without them so often."""
        return self.folder / f"data{generation}"

    def follow(self, clock: WallClock) -> None:
        """Have this clock from the next start on."""
        self.environment = clock.environment
        # A thread that waits for a moment of the wrong clock, by the system's, never sleeps.
        self.options += ("--jemalloc-bg-thread", "no")

    def start(self, *, afresh: bool = False) -> None:
        """Start it, without its data if `afresh`, and wait until it answers."""
        self.generation += afresh
        self.data(self.generation).mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            environment = {**os.environ, **self.environment}
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                self.ask("PING")
                return
            except (OSError, ServerSaid):
                if self._process.poll() is not None:
                    break
                time.sleep(0.01)
        raise RuntimeError(f"{PROGRAM} does not answer on port {self.port}; see {self.folder / 'log'}")

    def _command(self) -> list[str]:
        words = f"--port {self.port} --bind 127.0.0.1 --daemonize no --loglevel warning --unixsocket {self.socket}"
        words += " --hz 100 --slowlog-log-slower-than 500 --slowlog-max-len 1000"
        words += f" --bind-source-addr {self.source}"
        return [program(), *words.split(), "--dir", str(self.data(self.generation)), *self.options]

    def connect(self, timeout: float = 10.0) -> Connection:
        return Connection(self.port, timeout)

    def ask(self, *parts: str | bytes | int) -> object:
        """Send one command on a new connection."""
        with contextlib.closing(self.connect()) as connection:
            return connection(*parts)

    def keys(self) -> list[str]:
        """Return all keys."""
        keys = self.ask("KEYS", "*")
        assert isinstance(keys, list)
        return [key.decode() for key in keys]

    def end_of(self, key: str) -> float:
        """Return when a key expires by its server's clock, in seconds since 1970: infinity if it never does, 0 if it
        has.
        """
        left, told = self.ask("PTTL", key), self.ask("TIME")
        assert isinstance(left, int) and isinstance(told, list)
        return int(told[0]) + left / 1000 if left >= 0 else {-1: math.inf}.get(left, 0.0)

    def channels(self) -> list[str]:
        """Return all channels that someone listens to."""
        channels = self.ask("PUBSUB", "CHANNELS")
        assert isinstance(channels, list)
        return [channel.decode() for channel in channels]

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it like a crash."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """End it in whatever state it is."""
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self.kill()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def calls(self) -> dict[str, tuple[int, float]]:
        """Return the number of calls of each command, and the microseconds per call."""
        text = self.ask("INFO", "commandstats")
        assert isinstance(text, bytes)
        calls = {}
        for line in text.decode().splitlines():
            if line.startswith("cmdstat_"):
                name, _, values = line[len("cmdstat_") :].partition(":")
                facts = dict(value.split("=") for value in values.split(","))
                calls[name] = (int(facts["calls"]), float(facts["usec_per_call"]))
        return calls

    def fact(self, section: str, name: str) -> int:
        """Return a number from the server's INFO."""
        text = self.ask("INFO", section)
        assert isinstance(text, bytes)
        return next(int(line.partition(":")[2]) for line in text.decode().splitlines() if line.startswith(f"{name}:"))

    def slowest_script(self) -> int:
        """Return the microseconds of the slowest script call; 0 if it took less than half a millisecond."""
        entries = self.ask("SLOWLOG", "GET", "-1")
        assert isinstance(entries, list)
        return max((entry[2] for entry in entries if entry[3][0].upper() in (b"FCALL", b"EVALSHA")), default=0)


def program() -> str:
    """Return the path of the server's program."""
    found = shutil.which(PROGRAM)
    if found is None:
        raise RuntimeError(f"{PROGRAM} is not installed")
    return found
