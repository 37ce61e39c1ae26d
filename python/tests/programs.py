"""Runs programs one after the other, each in a process of its own that has imported Pinyon already.

``python programs.py`` reads the path of a program from each line of its input, and answers with the exit status and the
file of what the program printed.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class Programs:
    """A process that runs programs.

    Args:
        folder: where the programs run.
        environment: what they find in ``os.environ``.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=folder,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, program: Path) -> tuple[int, str]:
        """Run a program; return its exit status and what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{program}\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return status, program.with_suffix(".output").read_text()


def _serve() -> None:
    _wait_longer()
    for line in iter(sys.stdin.readline, ""):
        program = Path(line.rstrip("\n"))
        child = os.fork()
        if child == 0:
            _become(program)
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _wait_longer() -> None:
    """Let no program fail because the machine is slow: where a timeout is not the point, servers have half a minute."""
    from pinyon._base_locks import BaseLocks
    from pinyon.client import BaseClient

    bases: tuple[tuple[Any, str], ...] = ((BaseClient, "timeout"), (BaseLocks, "command_timeout"))
    for base, name in bases:

        def made(cls: Any, *arguments: Any, name: str = name, make: Any = base._made.__func__) -> Any:
            arguments[-1].update({name: 30.0, "connect_timeout": 30.0})
            return make(cls, *arguments)

        base._made = classmethod(made)


def _become(program: Path) -> None:
    output = os.open(program.with_suffix(".output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    sys.argv = [str(program)]
    sys.path[0] = str(program.parent)
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    _serve()
