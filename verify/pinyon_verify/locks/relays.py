"""Relays in front of a server that make it nearly Redis, and the double of Redis that programs are tested with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ..programs import ROOT, Missing
from .server import Server

#: The relays are the tests' own.
PROGRAM = ROOT / "scenarios" / "nearly_redis.py"


@contextmanager
def relays(port: int, names: tuple[str, ...]) -> Iterator[list[int]]:
    """Run a relay for each name. Gives their ports."""
    command = [sys.executable, str(PROGRAM), f"127.0.0.1:{port}", *names]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    try:
        yield [int(address.rpartition(":")[2]) for address in json.loads(process.stdout.readline())]
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


_SERVE = "import sys, fakeredis; fakeredis.TcpFakeServer(('127.0.0.1', int(sys.argv[1])), server_type='redis').serve_forever()"


class Double(Server):
    """fakeredis of PyPI, as a server. It counts nothing, and does not forget who has listened."""

    def start(self, *, afresh: bool = False) -> None:
        if find_spec("fakeredis") is None:
            raise Missing("fakeredis is not installed")
        super().start(afresh=afresh)

    def _command(self) -> list[str]:
        return [sys.executable, "-c", _SERVE, str(self.port)]

    def calls(self) -> dict[str, tuple[int, float]]:
        return {}

    def slowest_script(self) -> int:
        return 0

    def channels(self) -> list[str]:
        return []
