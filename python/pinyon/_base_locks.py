"""What the locks of all concurrency models have in common."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Callable

from pinyon import _native

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from pinyon._loop_driver import Loops
    from pinyon._settings import LockSettings

DEFAULT_URL: str = json.loads(_native.DEFAULT_SETTINGS)["Locks"]["url"]
logger = logging.getLogger("pinyon.locks")


class BaseLocks(_native.Locks):
    """What the locks of all concurrency models have in common; use one of those."""

    __slots__ = ("__weakref__",)

    #: Returns the number of what holds and waits: a thread, greenlet or task.
    _owner: Callable[[], int]
    #: How the event loops are found that share connections, and driven; None for threads.
    _loops: Loops | None = None

    def __new__(cls, url: str = DEFAULT_URL, **settings: Unpack[LockSettings]) -> Self:
        return super().__new__(cls, warn=logger.warning, loops=cls._loops, url=url, **settings)

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else self.server
        namespace = self.prefix[1:-2].decode("utf-8", "replace")
        return f"<{type(self).__module__}.{type(self).__qualname__} {state}, namespace {namespace!r}>"
