"""What the locks of all concurrency models have in common."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Callable

from pinyon import _native
from pinyon._hash_tags import Branches
from pinyon._keeper import keep_in_thread

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from pinyon._loop_driver import Loops
    from pinyon._settings import LockSettings

DEFAULT_URL: str = json.loads(_native.DEFAULT_SETTINGS)["Locks"]["url"]
logger = logging.getLogger("pinyon.locks")


class BaseLocks(_native.Locks):
    """What the locks of all concurrency models have in common; use one of those."""

    __slots__ = ("__weakref__", "_branches")

    _branches: Branches | None

    #: Returns the number of what holds and waits: a thread, greenlet or task.
    _owner: Callable[[], int]
    #: How the event loops are found that share connections, and driven; None for threads.
    _loops: Loops | None = None

    def __new__(cls, url: str = DEFAULT_URL, **settings: Unpack[LockSettings]) -> Self:
        return cls._of(None, {"url": url, **settings})

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def _at(self, names: tuple[str | bytes, ...]) -> Self:
        """Return the locks that keep these names: these, or those of the names' own hash tag."""
        if self._branches is None or self.is_closed:
            return self
        tag = self.tag_of(names)
        return self if tag is None else self._branches.of(tag, self._branch)  # type: ignore[return-value]

    def _branch(self, tag: bytes) -> BaseLocks:
        assert self._branches is not None
        return self._of(tag, self._branches.settings)

    @classmethod
    def _of(cls, tag: bytes | None, settings: dict[str, Any]) -> Self:
        """Return locks with these settings; with a tag, those of the names that have this hash tag."""
        locks = super().__new__(
            cls, warn=logger.warning, keep=keep_in_thread, hash_tag=tag, loops=cls._loops, **settings
        )
        locks._branches = Branches(settings) if tag is None and locks.names_have_tags else None
        return locks

    @property
    def hash_tags(self) -> str:
        """By what a cluster chooses the node of a lock: ``"namespace"`` or ``"names"``."""
        return "namespace" if self._branches is None else "names"

    def close(self) -> None:
        """Close the connections. What waits fails; what is held is lost, and ends on the server with its ttl."""
        super().close()
        if self._branches is not None:
            self._branches.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else self.server
        namespace = self.prefix[1:-2].decode("utf-8", "replace")
        return f"<{type(self).__module__}.{type(self).__qualname__} {state}, namespace {namespace!r}>"
