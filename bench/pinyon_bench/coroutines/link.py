"""Links with a delay: a process between client and server that delays every byte."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from ..contestant import program
from ..placement import pinned

#: Of the slow link.
ONE_WAY_MILLISECONDS = 15
START_SECONDS = 5.0
PROXY_PROGRAM = "pinyon-delay"


class LinkError(Exception):
    """There is no such link here."""


@contextmanager
def delay_proxy(target: str, milliseconds: int, cores: set[int] | None) -> Iterator[str]:
    """Runs a proxy that delays bytes by some milliseconds each way; gives its address."""
    command = [str(program(PROXY_PROGRAM)), target, str(milliseconds)]
    try:
        with pinned(cores):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise LinkError(f"{PROXY_PROGRAM} is not built: cargo build --release -p pinyon-floor") from None
    assert process.stdin is not None and process.stdout is not None
    try:
        if not select.select([process.stdout], [], [], START_SECONDS)[0]:
            raise LinkError(f"{PROXY_PROGRAM} does not start")
        address = process.stdout.readline().strip()
        if not address:
            raise LinkError(f"{PROXY_PROGRAM} ended at once")
        yield address
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
