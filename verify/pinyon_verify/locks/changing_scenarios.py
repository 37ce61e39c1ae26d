"""Short scenarios of upgrades and downgrades with a known end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pinyon
from pinyon.cli.stress.models import Threads
from pinyon.errors import Deadlock

from .scenarios import NEVER, SOON
from .work import make_locks
from .world import World


class _Waiting:
    """A call that waits in a thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        # Once a complaint has closed the client, nobody asks for the result.
        with contextlib.suppress(pinyon.Error):
            self.result = call()

    def is_over(self) -> bool:
        """Wait a moment, and return whether it has returned."""
        self._thread.join(SOON)
        return not self._thread.is_alive()


def changed_in_turn(world: World) -> list[str]:
    """A downgrade lets in the reader that waits; of two readers that upgrade, the second is refused and the first waits for it."""
    settings = world.cell.clients[0].but(url=f"redis://127.0.0.1:{world.server.port}")
    first, second = (make_locks(Threads(), settings) for _ in range(2))
    try:
        return _downgraded(first, second) or _upgraded(first, second)
    finally:
        first.close()
        second.close()


def _downgraded(first: Any, second: Any) -> list[str]:
    held = first.lock("n0").acquire()
    reader = _Waiting(second.read("n0", timeout=NEVER).acquire)
    _until_one_waits(first)
    held.downgrade()
    if not reader.is_over():
        return ["a reader that waited was not told of a downgrade"]
    held.release()
    reader.result.release()
    return []


def _upgraded(first: Any, second: Any) -> list[str]:
    held, other = first.read("n0").acquire(), second.read("n0").acquire()
    token = held.token
    upgrade = _Waiting(lambda: held.upgrade(timeout=NEVER))
    _until_one_waits(second)
    try:
        other.upgrade(timeout=SOON)
    except Deadlock:
        pass
    except Exception as error:
        return [f"the second upgrade was not refused: {error}"]
    other.release()
    if not upgrade.is_over():
        return ["an upgrade was not told that the last reader had gone"]
    complaints = [] if held.token > token else ["an upgrade has no higher token"]
    held.release()
    return complaints


def _until_one_waits(locks: Any) -> None:
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline and locks.waiting("n0") == 0:
        time.sleep(0.005)
