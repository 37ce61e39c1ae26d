"""What a server knows of an item besides its value."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ItemMetadata"]


@dataclass(frozen=True)
class ItemMetadata:
    """The metadata that ``Client.meta`` returns.

    Attributes:
        size: the value's length in bytes.
        flags: the client flags it was stored with.
        cas: the CAS token, for ``Client.cas``.
        ttl: seconds until it expires, None for never.
        last_access: seconds since it was last read or written.
        fetched: whether it was read since it was stored.
    """

    size: int
    flags: int
    cas: int
    ttl: int | None
    last_access: int
    fetched: bool
