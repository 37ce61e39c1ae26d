"""Runs ``pinyon locks`` and ``pinyon stats`` as a user would, in a pipe and on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

#: The verbs of locks that ask a server. A busy machine's server may need longer than a user would wait.
ASKING = ("list", "show", "release")


def patient(arguments: tuple[str, ...]) -> list[str]:
    """The arguments, with a generous timeout for verbs that ask a server, unless they have one."""
    if arguments[:1] and arguments[0] in ASKING and "--timeout" not in arguments:
        return [arguments[0], "--timeout", "60", *arguments[1:]]
    return [*arguments]


def run(*arguments: str, url: str, program: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command line in a pipe, and ``program`` before it. Returns its output."""
    source = f"import sys, pinyon.cli\n{program}\nsys.exit(pinyon.cli.main())"
    command = [sys.executable, "-c", source, "locks", *patient(arguments)]
    environment = {**os.environ, "REDIS_URL": url}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=150, check=False, stdin=subprocess.DEVNULL
    )


class Terminal:
    """A command line on a terminal."""

    def __init__(self, *arguments: str, url: str, program: str = "", columns: int = 80, room: str = "locks") -> None:
        source = f"import sys, pinyon.cli\n{program}\nsys.exit(pinyon.cli.main())"
        environment = {**os.environ, "REDIS_URL": url, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40"}
        environment.pop("NO_COLOR", None)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [sys.executable, "-c", source, room, *patient(arguments)], environment)
        self.shown = ""

    def wait_for(self, text: str, within: float = 60) -> None:
        give_up = time.monotonic() + within
        while text not in self.shown:
            assert time.monotonic() < give_up, self.shown
            assert self._read(), self.shown

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt_at_a_question(self) -> int:
        """Its exit status after Ctrl-C. Repeats Ctrl-C, since Python misses one just before it waits for input.

        Not soon: a second one while it ends would end it by the signal.
        """
        self.type("\x03")
        for _ in range(5):
            while select.select([self._fd], [], [], 20)[0]:
                if not self._read():
                    return self.end()
            self.type("\x03")
        raise TimeoutError(self.shown)

    def end(self) -> int:
        """Its exit status, once it has ended."""
        while self._read():
            pass
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], 60)[0]:
            raise TimeoutError(self.shown)
        try:
            received = os.read(self._fd, 65536)
        except OSError:
            return False
        self.shown += received.decode()
        return bool(received)
