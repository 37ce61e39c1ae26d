"""A client for moving to a new cache: it writes to one cache and reads from several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pinyon.compat.pymemcache.client._arguments import Key


class FallbackClient:
    """Writes to the first of several clients. Reads from each in turn until one has a value.

    Args:
        caches: the clients, the new cache first. Give the old ones ``ignore_exc=True``.
    """

    def __init__(self, caches: Sequence[Any]) -> None:
        if not caches:
            raise ValueError("a FallbackClient needs at least one client")
        self.caches = caches

    def close(self) -> None:
        for cache in self.caches:
            cache.close()

    def set(self, key: Key, value: Any, expire: int = 0, noreply: bool = True) -> None:
        self.caches[0].set(key, value, expire, noreply)

    def add(self, key: Key, value: Any, expire: int = 0, noreply: bool = True) -> None:
        self.caches[0].add(key, value, expire, noreply)

    def replace(self, key: Key, value: Any, expire: int = 0, noreply: bool = True) -> None:
        self.caches[0].replace(key, value, expire, noreply)

    def append(self, key: Key, value: Any, expire: int = 0, noreply: bool = True) -> None:
        self.caches[0].append(key, value, expire, noreply)

    def prepend(self, key: Key, value: Any, expire: int = 0, noreply: bool = True) -> None:
        self.caches[0].prepend(key, value, expire, noreply)

    def cas(self, key: Key, value: Any, cas: int | str | bytes, expire: int = 0, noreply: bool = True) -> None:
        self.caches[0].cas(key, value, cas, expire, noreply)

    def delete(self, key: Key, noreply: bool = True) -> None:
        self.caches[0].delete(key, noreply)

    def incr(self, key: Key, value: int, noreply: bool = True) -> None:
        self.caches[0].incr(key, value, noreply)

    def decr(self, key: Key, value: int, noreply: bool = True) -> None:
        self.caches[0].decr(key, value, noreply)

    def touch(self, key: Key, expire: int = 0, noreply: bool = True) -> None:
        self.caches[0].touch(key, expire, noreply)

    def flush_all(self, delay: int = 0, noreply: bool = True) -> None:
        self.caches[0].flush_all(delay, noreply)

    def get(self, key: Key) -> Any:
        found = (cache.get(key) for cache in self.caches)
        return next((value for value in found if value is not None), None)

    def get_many(self, keys: Iterable[Key]) -> Any:
        keys = list(keys)
        found = (cache.get_many(keys) for cache in self.caches)
        return next((values for values in found if values), [])

    def gets(self, key: Key) -> tuple[Any, Any]:
        """Return what the first cache has. Its token is not valid for other caches."""
        found: tuple[Any, Any] = self.caches[0].gets(key)
        return found

    def gets_many(self, keys: Iterable[Key]) -> Any:
        keys = list(keys)
        found = (cache.gets_many(keys) for cache in self.caches)
        return next((values for values in found if values), [])

    def stats(self) -> None:
        """Do nothing, as in pymemcache."""

    def quit(self) -> None:
        """Do nothing, as in pymemcache."""
