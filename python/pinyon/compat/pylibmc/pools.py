"""pylibmc's pools, for code that uses them. Pinyon needs none, because threads can share a client."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinyon.compat.pylibmc.client import Client

    _Queue = queue.Queue[Client]
    _Dict = dict[int, Client]
else:
    _Queue, _Dict = queue.Queue, dict


class ClientPool(_Queue):
    """A queue of clones, each lent to one caller at a time.

    Args:
        mc: the client to clone.
        n_slots: the number of clones.
    """

    def __init__(self, mc: Client | None = None, n_slots: int = 0) -> None:
        super().__init__(n_slots)
        if mc is not None and n_slots:
            self.fill(mc, n_slots)

    @contextmanager
    def reserve(self, block: bool = False) -> Iterator[Client]:
        """Lend a client for the block.

        Args:
            block: whether to wait if all clients are lent.

        Raises:
            queue.Empty: all clients are lent, and ``block`` is False.
        """
        mc = self.get(block)
        try:
            yield mc
        finally:
            self.put(mc)

    def fill(self, mc: Client, n_slots: int) -> None:
        """Add ``n_slots`` clones of ``mc``."""
        for _ in range(n_slots):
            self.put(mc.clone())


class ThreadMappedPool(_Dict):
    """A clone for each thread. It is made when the thread first reserves a client.

    Args:
        master: the client to clone.
    """

    def __new__(cls, master: Client) -> ThreadMappedPool:
        return super().__new__(cls)

    def __init__(self, master: Client) -> None:
        self.master = master

    @property
    def current_key(self) -> int:
        return threading.get_ident()

    @contextmanager
    def reserve(self) -> Iterator[Client]:
        """Lend the calling thread its client for the block."""
        key = self.current_key
        mc = self.pop(key, None)
        if mc is None:
            mc = self.master.clone()
        try:
            yield mc
        finally:
            self[key] = mc

    def relinquish(self) -> Client | None:
        """Remove the calling thread's client from the pool and return it. Call this before the thread ends."""
        return self.pop(self.current_key, None)
