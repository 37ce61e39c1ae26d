"""A cache in memory with a client's methods, for tests of programs. Values become bytes only if there is a serde."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from pinyon.compat.pymemcache.client._arguments import Key, check_key_helper
from pinyon.compat.pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError
from pinyon.compat.pymemcache.serde import LegacyWrappingSerde


class MockMemcacheClient:
    """Takes a client's arguments. It keeps those for connections, but does not use them."""

    def __init__(
        self,
        server: Any = None,
        serde: Any = None,
        serializer: Any = None,
        deserializer: Any = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        no_delay: bool = False,
        ignore_exc: bool = False,
        socket_module: Any = None,
        default_noreply: bool = True,
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        tls_context: Any = None,
    ) -> None:
        self.server = server
        self.serde: Any = serde or LegacyWrappingSerde(serializer, deserializer)
        self.connect_timeout = connect_timeout
        self.timeout = timeout
        self.no_delay = no_delay
        self.ignore_exc = ignore_exc
        self.socket_module = socket_module
        self.sock: Any = None
        self.allow_unicode_keys = allow_unicode_keys
        self.encoding = encoding
        self.tls_context = tls_context
        #: When the item expires (0 for never), and the serde's output.
        self._items: dict[bytes, tuple[float, Any, int]] = {}

    def check_key(self, key: Key) -> bytes:
        return check_key_helper(key, self.allow_unicode_keys)

    def clear(self) -> None:
        """Delete all items."""
        self._items.clear()

    def _has(self, key: Key) -> bool:
        until, _, _ = self._items.get(self.check_key(key), (-1, None, 0))
        return until == 0 or until > time.time()

    def get(self, key: Key, default: Any = None) -> Any:
        if not self._has(key):
            return default
        _, stored, flags = self._items[self.check_key(key)]
        return self.serde.deserialize(key, stored, flags)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Any]:
        return {key: self.get(key) for key in keys if self._has(key)}

    get_multi = get_many

    def set(self, key: Key, value: Any, expire: int = 0, noreply: bool = True, flags: int | None = None) -> bool:
        stored, own_flags = self.serde.serialize(key, self._as_bytes(value))
        until = expire and time.time() + expire
        self._items[self.check_key(key)] = until, stored, own_flags if flags is None else flags
        return True

    def set_many(
        self, values: Mapping[Key, Any], expire: int = 0, noreply: bool = True, flags: int | None = None
    ) -> list[Key]:
        for key, value in values.items():
            self.set(key, value, expire, noreply, flags)
        return []

    set_multi = set_many

    def add(self, key: Key, value: Any, expire: int = 0, noreply: bool = True, flags: int | None = None) -> bool:
        if self._has(key):
            return noreply
        return self.set(key, value, expire, noreply, flags)

    def replace(self, key: Key, value: Any, expire: int = 0, noreply: bool = True, flags: int | None = None) -> bool:
        return self.set(key, value, expire, noreply, flags) if self._has(key) else noreply

    def append(self, key: Key, value: Any, expire: int = 0, noreply: bool = True, flags: int | None = None) -> bool:
        if self._has(key):
            self.set(key, self.get(key) + self._as_bytes(value), expire, noreply, flags)
        return True

    def prepend(self, key: Key, value: Any, expire: int = 0, noreply: bool = True, flags: int | None = None) -> bool:
        if self._has(key):
            self.set(key, self._as_bytes(value) + self.get(key), expire, noreply, flags)
        return True

    def cas(
        self, key: Key, value: Any, cas: Any, expire: int = 0, noreply: bool = False, flags: int | None = None
    ) -> bool:
        raise MemcacheClientError("CAS is not enabled for this instance")

    def incr(self, key: Key, value: int, noreply: bool = False) -> int | None:
        if not self._has(key):
            return None
        number: int = self.get(key) + value
        self.set(key, number)
        return None if noreply else number

    def decr(self, key: Key, value: int, noreply: bool = False) -> int | None:
        return self.incr(key, -value, noreply)

    def touch(self, key: Key, expire: int = 0, noreply: bool = True) -> bool:
        return self.set(key, self.get(key), expire) if self._has(key) else noreply

    def delete(self, key: Key, noreply: bool = True) -> bool:
        had = self._has(key)
        self._items.pop(self.check_key(key), None)
        return noreply or had

    def delete_many(self, keys: Iterable[Key], noreply: bool = True) -> bool:
        for key in keys:
            self.delete(key)
        return True

    delete_multi = delete_many

    def flush_all(self, delay: int = 0, noreply: bool = True) -> bool:
        self.clear()
        return True

    def stats(self, *_arguments: Any) -> dict[str, Any]:
        return {"version": self.version(), "curr_items": sum(map(self._has, self._items))}

    def cache_memlimit(self, memlimit: int) -> bool:
        return True

    def version(self) -> str:
        return "MockMemcacheClient"

    def close(self) -> None:
        """Do nothing."""

    quit = close

    def _as_bytes(self, value: Any) -> Any:
        try:
            return value.encode(self.encoding) if isinstance(value, str) else value
        except UnicodeEncodeError as error:
            raise MemcacheIllegalInputError(f"Data values must be binary-safe: {error}") from error
