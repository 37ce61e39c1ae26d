"""Objects that are known as long as they exist, such as clients whose metrics are shown."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

T = TypeVar("T")


class Alive(Generic[T]):
    """Keeps track of objects without keeping them alive. Threads may add objects while another thread lists them.

    A ``weakref.WeakSet`` fails then: its iteration is in Python, and the set changes meanwhile.
    """

    def __init__(self) -> None:
        self._references: weakref.WeakValueDictionary[int, T] = weakref.WeakValueDictionary()

    def add(self, one: T) -> None:
        """Take note of an object. Once is enough."""
        self._references[id(one)] = one

    def discard(self, one: T) -> None:
        """Forget an object, if it is known."""
        self._references.pop(id(one), None)

    def all(self) -> list[T]:
        """Return the objects that exist now."""
        there = (reference() for reference in self._references.valuerefs())
        return [one for one in there if one is not None]
