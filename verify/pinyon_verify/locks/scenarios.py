"""Short scenarios with a known end that other kinds of locks get wrong."""

from __future__ import annotations

import threading
import time
from typing import Any

from pinyon.cli.stress.models import Threads

from .work import make_locks
from .world import World

#: Seconds until the heartbeat wakes a waiter that is not woken otherwise: far longer than anything here takes.
NEVER = 60.0
#: Seconds within which a woken waiter continues on any machine.
SOON = 10.0


class _Waiter:
    """A client with its own connection that waits for names in a thread."""

    def __init__(self, world: World, *names: str, fairness: str = "fifo", timeout: float = NEVER) -> None:
        settings = world.cell.clients[0].but(url=f"redis://127.0.0.1:{world.server.port}", fairness=fairness)
        self.locks = make_locks(Threads(), settings)
        self.names = names
        self.held: Any = None
        self.error: BaseException | None = None
        self._timeout = timeout
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._acquire, daemon=True)

    def _acquire(self) -> None:
        try:
            self.held = self.locks.lock(*self.names, timeout=self._timeout).acquire()
        except BaseException as error:
            self.error = error
        self._over.set()

    def begins_to_wait(self) -> _Waiter:
        """Return once it is in the server's queue."""
        before = self.locks.waiting(*self.names)
        self._thread.start()
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline and not self._over.is_set() and self.locks.waiting(*self.names) == before:
            time.sleep(0.005)
        return self

    def is_granted(self) -> bool:
        """Wait a moment, and return whether it holds its names."""
        return self._over.wait(SOON) and self.held is not None

    def waits_still(self) -> bool:
        return not self._over.wait(0.1)

    def close(self) -> None:
        self.locks.close()


def overtaken_waiter(world: World) -> list[str]:
    """A becomes free while W1 waits for A and B, and W2 for A: the waiter that can continue wakes at once."""
    complaints = []
    for fairness in ("fifo", "throughput"):
        complaints += _overtaken(world, fairness)
    complaints += _overtaken_gives_up(world)
    return complaints


def _overtaken(world: World, fairness: str) -> list[str]:
    holder = _Waiter(world, fairness=fairness)
    first, second = _Waiter(world, "n0", "n1", fairness=fairness), _Waiter(world, "n0", fairness=fairness)
    complaints = []
    a, b = holder.locks.lock("n0").acquire(), holder.locks.lock("n1").acquire()
    first.begins_to_wait()
    second.begins_to_wait()
    a.release()
    if fairness == "throughput":
        if not second.is_granted():
            complaints.append("throughput: W2 was not woken when A was freed")
        else:
            second.held.release()
        b.release()
    else:
        if not second.waits_still():
            complaints.append("fifo: W2 came before W1")
        b.release()
    if not first.is_granted():
        complaints.append(f"{fairness}: W1 was not woken when A and B were free")
    else:
        first.held.release()
    if not second.is_granted():
        complaints.append(f"{fairness}: W2 was not woken after W1")
    elif fairness == "fifo":
        second.held.release()
    for each in (holder, first, second):
        each.close()
    return complaints


def _overtaken_gives_up(world: World) -> list[str]:
    holder, first, second = _Waiter(world), _Waiter(world, "n0", "n1", timeout=1.5), _Waiter(world, "n0")
    complaints = []
    a, b = holder.locks.lock("n0").acquire(), holder.locks.lock("n1").acquire()
    first.begins_to_wait()
    second.begins_to_wait()
    a.release()
    if not second.is_granted():
        complaints.append("W2 was not woken when W1 gave up")
    else:
        second.held.release()
    b.release()
    for each in (holder, first, second):
        each.close()
    return complaints
