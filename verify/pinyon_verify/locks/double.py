"""A server of fakeredis, the double that Python's programs test with: ``python -m pinyon_verify.locks.double PORT``."""

from __future__ import annotations

import importlib.util
import sys

from .clock import Skipped
from .server import Server


class Double(Server):
    """It runs in a process of its own, like a server. It counts nothing, keeps the subscriptions of connections that
    have ended, and ends keys up to a second early.
    """

    def _command(self) -> list[str]:
        if importlib.util.find_spec("fakeredis") is None:
            raise Skipped("fakeredis is not installed")
        return [sys.executable, "-m", __name__, str(self.port)]

    def calls(self) -> dict[str, tuple[int, float]]:
        return {}

    def channels(self) -> list[str]:
        return []

    def slowest_script(self) -> int:
        return 0


if __name__ == "__main__":
    from fakeredis import TcpFakeServer

    TcpFakeServer(("127.0.0.1", int(sys.argv[1])), server_type="redis").serve_forever()
