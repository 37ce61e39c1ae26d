"""Who holds and who waits: numbers for threads, greenlets and tasks that are never used again."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

#: An ``id`` is given to another object once its own has gone; these are not.
_numbers = itertools.count(1)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.me = _Owner()


class _Owner:
    """Stands for a thread, which has no object of its own when it was not started from Python."""

    __slots__ = ("__weakref__",)


_thread = _Thread()


def current_thread() -> Any:
    """Return what stands for the running thread."""
    return _thread.me


class Owners:
    """Their numbers."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def number_of(self, owner: Any) -> int:
        """Return the number of a thread, greenlet or task."""
        number: int | None = self._known.get(owner)
        if number is None:
            number = self._known[owner] = next(_numbers)
        return number
