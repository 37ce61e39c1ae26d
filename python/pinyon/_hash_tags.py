"""Locks whose names say themselves where in a cluster they are kept: a client of its own for each hash tag."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from pinyon._base_locks import BaseLocks

#: How many tags' clients keep their connection while nothing of theirs is held or about to be.
KEPT = 64

#: Held for a moment only; not by another thread while the process forks. What is thrown away meanwhile may want it too.
_changing = threading.RLock()
os.register_at_fork(before=_changing.acquire, after_in_parent=_changing.release, after_in_child=_changing.release)


class Branches:
    """The clients of the tags in use. What is held, or may be taken by a lock that was made, keeps its client alive."""

    __slots__ = ("_by_tag", "_recent", "settings")

    def __init__(self, settings: dict[str, Any]) -> None:
        #: What each of them is made with.
        self.settings = settings
        self._by_tag: weakref.WeakValueDictionary[bytes, BaseLocks] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[bytes, BaseLocks] = OrderedDict()

    def of(self, tag: bytes, make: Callable[[bytes], BaseLocks]) -> BaseLocks:
        """Return the client of this tag, the only one there is."""
        dropped: list[BaseLocks] = []  # outside of the lock, as its last reference closes it
        with _changing:
            branch = self._by_tag.get(tag)
            if branch is None:
                branch = self._by_tag[tag] = make(tag)
            self._recent[tag] = branch
            self._recent.move_to_end(tag)
            if len(self._recent) > KEPT:
                dropped.append(self._recent.popitem(last=False)[1])
        return branch

    def close(self) -> None:
        """Close all that are in use."""
        with _changing:
            branches = list(self._by_tag.values())
            self._recent.clear()
        for branch in branches:
            branch.close()
