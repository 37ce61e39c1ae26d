"""The metadata of items."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ItemMetadata"]


@dataclass(frozen=True)
class ItemMetadata:
    """The metadata of an item, as ``Client.meta`` returns it.

    Attributes:
        size: the size of the stored value, in bytes.
        flags: the client flags that were stored with it.
        cas: the CAS token, for ``Client.cas``.
        ttl: seconds until it expires, or None if it never does.
        last_access: seconds since it was last read or written.
        fetched: whether it was read after it was stored.
    """

    size: int
    flags: int
    cas: int
    ttl: int | None
    last_access: int
    fetched: bool
