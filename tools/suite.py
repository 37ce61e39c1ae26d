"""Runs one suite of `make test`, `suite.py NAME COMMAND...`, and keeps what it prints in target/suites.

The file is NAME.log, or NAME.failed. With several suites at once, the one that failed is seldom the last that printed.
A suite that does not end has failed, too: it says which of its processes waited for what, and Python says where.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

# Twice what the longest takes, and still short of what a whole run may take.
LIMIT = 60 * float(os.environ.get("SUITE_MINUTES", "45"))
# In which those that are told to abort write where they are.
LAST_WORDS = 10
FOLDER = pathlib.Path(__file__).parents[1] / "target" / "suites"


def main(name: str, *command: str) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    FOLDER.mkdir(parents=True, exist_ok=True)
    log = FOLDER / f"{name}.log"
    with log.open("wb") as output:
        status = run(command, output.fileno())
    with log.open("rb") as output:
        shutil.copyfileobj(output, sys.stdout.buffer)
    if status:
        log.rename(log.with_suffix(".failed"))
    return 1 if status else 0


def run(command: tuple[str, ...], output: int) -> int:
    """The exit status of the command, which is ended when its time is over: it and all that is in its process group."""
    process = subprocess.Popen(command, stdout=output, stderr=output, process_group=0)
    try:
        return process.wait(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        running = processes(process.pid)
        end(process, signal.SIGABRT)
        os.write(output, f"\nThe suite did not end within {LIMIT / 60:g} minutes. What still ran:\n{running}".encode())
        return 1
    except BaseException:
        end(process, signal.SIGTERM)
        raise


def processes(group: int) -> str:
    command = ["ps", "-e", "-ww", "--forest", "-o", "pgid,pid,ppid,etime,cputime,stat,wchan:24,args"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    heading, *lines = listed.splitlines(keepends=True)
    return heading + "".join(line for line in lines if line.split()[0] == str(group))


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Sends the signal to the whole group, and kills what is left of it some seconds later."""
    give_up = time.monotonic() + LAST_WORDS
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
        while time.monotonic() < give_up:
            time.sleep(0.1)
            process.poll()
            os.killpg(process.pid, 0)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def leave(number: int, _frame: object) -> None:
    """Ends as if interrupted. The suite has a process group of its own, which no signal to this one's reaches."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
