"""Hot keys in memory: how much a process keeps, and for how long."""

from __future__ import annotations

from datetime import timedelta

from pinyon._native import check_near

__all__ = ["Near"]


class Near:
    """How a client keeps hot keys in memory: ``pinyon.Client(…, near=pinyon.Near(max_bytes=2**20, fresh=0.5))``.

    All threads and event loops of the client, and its views, share these keys. A forked child begins without any.

    Args:
        max_bytes: the bytes of all keys and values in memory, with what it takes to keep them.
        fresh: how old a value in memory may be that is returned without asking the server, in seconds or as a
            timedelta.

    Raises:
        UsageError: an argument cannot be used.
    """

    __slots__ = ("fresh", "max_bytes")

    def __init__(self, *, max_bytes: int = 32 * 1024 * 1024, fresh: float | timedelta = 1.0) -> None:
        self.max_bytes: int = max_bytes
        self.fresh: float = fresh.total_seconds() if isinstance(fresh, timedelta) else fresh
        check_near(self)

    def __repr__(self) -> str:
        return f"<pinyon.Near max_bytes={self.max_bytes}, fresh={self.fresh}>"
