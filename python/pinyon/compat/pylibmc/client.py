"""pylibmc's client over ``pinyon.Client``."""

from __future__ import annotations

from typing import Any

import pinyon
from pinyon.compat.pylibmc.errors import BadKeyProvided, NotFound, SomeErrors
from pinyon.compat.pylibmc.foundation import MISS, Key, ttl_of
from pinyon.compat.pylibmc.many import Many
from pinyon.compat.pylibmc.rings import number_of_server
from pinyon.compat.pylibmc.servers import address, translate_server_spec, translate_server_specs

__all__ = ["Client", "translate_server_spec", "translate_server_specs"]


class Client(Many):
    """pylibmc's client. Unlike in pylibmc, threads, greenlets and forked children may share it.

    Args:
        servers: ``"host[:port[:weight]]"``, ``"[v6]:port"``, ``"/unix/path"`` or tuples of type, host, port, weight.
        behaviors: see ``docs/from-pylibmc.md``.
        binary: accept keys with spaces and control bytes. They are sent as base64.
        username, password: for servers that require a login (memcached's option ``-Y``); both or neither.

    Raises:
        Error: the list of servers is empty, or a behavior is not supported.
        TypeError, ValueError: an argument makes no sense.
    """

    # Reading.

    def get(self, key: Key, default: Any = None, /) -> Any:
        """Return the value, or ``default`` if there is none."""
        name = self._name(key)
        if not name:
            return default
        try:
            stored = self._cache.get(name)
        except pinyon.InvalidKey as error:
            if not self._behaviors["verify_keys"]:
                return default
            raise self._failure(error) from error
        except pinyon.Error as error:
            raise self._failure(error) from error
        value = MISS if stored is None else self._load(stored)
        return default if value is MISS else value

    def gets(self, key: Key, /) -> tuple[Any, int | None]:
        """Return the value and its CAS token, or ``(None, None)``. This needs the behavior ``cas``."""
        name = self._name(key)
        if not name:
            return None, None
        self._want_cas("gets")
        try:
            found = self._cache.gets(name)
        except pinyon.Error as error:
            raise self._failure(error) from error
        value = MISS if found is None else self._load(found[0])
        return (None, None) if found is None or value is MISS else (value, found[1])

    # Storing.

    def set(self, key: Key, val: Any, time: int = 0, min_compress_len: int = 0, compress_level: int = -1) -> bool:
        """Store the value. Return whether it was stored.

        Args:
            key: at most 250 bytes.
            val: any value that can be pickled.
            time: seconds, up to thirty days, or a Unix time; 0 never expires.
            min_compress_len: compress values of at least this many bytes; 0 for never.
            compress_level: zlib's level, 0 to 9.
        """
        return self._store("set", key, val, (ttl_of(time),), min_compress_len, compress_level)

    def add(self, key: Key, val: Any, time: int = 0, min_compress_len: int = 0, compress_level: int = -1) -> bool:
        """Store the value as ``set`` does, but only if the key has no item."""
        return self._store("add", key, val, (ttl_of(time),), min_compress_len, compress_level)

    def replace(self, key: Key, val: Any, time: int = 0, min_compress_len: int = 0, compress_level: int = -1) -> bool:
        """Store the value as ``set`` does, but only if the key has an item."""
        return self._store("replace", key, val, (ttl_of(time),), min_compress_len, compress_level)

    def append(self, key: Key, val: Any, time: int = 0, min_compress_len: int = 0, compress_level: int = -1) -> bool:
        """Append the value's bytes to the item. Its flags and ttl do not change."""
        return self._store("append", key, val, (), min_compress_len, compress_level)

    def prepend(self, key: Key, val: Any, time: int = 0, min_compress_len: int = 0, compress_level: int = -1) -> bool:
        """Prepend the value's bytes to the item. Its flags and ttl do not change."""
        return self._store("prepend", key, val, (), min_compress_len, compress_level)

    def _store(self, command: str, key: Key, value: Any, ttl: tuple[int, ...], least: int, level: int) -> bool:
        name, stored = self._name(key), self._dump(value, least, level)
        if not name:
            return False
        try:
            return bool(getattr(self._cache, command)(name, stored, *ttl))
        except pinyon.Error as error:
            return self._softened(error)

    def cas(self, key: Key, val: Any, cas: int, time: int = 0) -> bool:
        """Store the value if the item has not changed since ``gets`` returned the token. Needs the behavior ``cas``.

        Raises:
            NotFound: there is no such item.
        """
        self._want_cas("cas")
        name, stored = self._name(key), self._dump(val)
        if not name:
            raise BadKeyProvided("the key is empty")
        try:
            swapped = self._cache.cas(name, stored, cas, ttl_of(time))
        except pinyon.Error as error:
            raise self._failure(error) from error
        if swapped is None:
            raise NotFound(f"there is no item {name!r}")
        return swapped

    def _want_cas(self, method: str) -> None:
        if not self._behaviors["cas"]:
            raise ValueError(f"{method} without cas behavior")

    def touch(self, key: Key, seconds: int, /) -> bool:
        """Set the item's ttl. Return whether there is such an item."""
        name, ttl = self._name(key), ttl_of(seconds)
        if not name:
            return False
        try:
            return self._cache.touch(name, ttl)
        except pinyon.Error as error:
            return self._softened(error)

    # Deleting.

    def delete(self, key: Key, /) -> bool:
        """Delete the item. Return whether there was one."""
        name = self._name(key)
        if not name:
            return False
        try:
            return self._cache.delete(name)
        except pinyon.Error as error:
            return self._softened(error)

    # Counting.

    def incr(self, key: Key, delta: int = 1, /) -> int:
        """Add to the number. Return the sum.

        Raises:
            NotFound: there is no such item.
        """
        return self._count("incr", key, delta)

    def decr(self, key: Key, delta: int = 1, /) -> int:
        """Subtract from the number, down to zero. Return the difference.

        Raises:
            NotFound: there is no such item.
        """
        return self._count("decr", key, delta)

    def _count(self, command: str, key: Key, delta: int) -> int:
        name = self._name(key)
        if delta < 0:
            raise ValueError("delta must be positive")
        if not name:
            raise BadKeyProvided("the key is empty")
        try:
            count: int | None = getattr(self._cache, command)(name, delta)
        except pinyon.Error as error:
            raise self._failure(error) from error
        if count is None:
            raise NotFound("1 keys not found")
        return count

    # Servers.

    def get_stats(self, args: str | None = None, /) -> list[tuple[bytes, dict[str, bytes]]]:
        """Return each server's statistics: the general ones, or those of one kind."""
        try:
            answers = self._cache.stats(args)
        except pinyon.Error as error:
            raise self._failure_of_all(error) from error
        return [
            (
                f"{host}:{port} ({number})".encode(),
                {name: value.encode() for name, value in answers[address((kind, host, port, 1))].items()},
            )
            for number, (kind, host, port, _) in enumerate(self._specs)
        ]

    def flush_all(self, time: int = 0) -> bool:
        """Make all items of all servers expire, after ``time`` seconds."""
        if not isinstance(time, int):
            raise TypeError(f"flush_all() argument 1 must be int, not {type(time).__name__}")
        try:
            self._cache.flush_all(max(time, 0))
        except pinyon.Error as error:
            raise self._failure_of_all(error) from error
        return True

    def _failure_of_all(self, error: pinyon.Error) -> Exception:
        failure = self._failure(error)
        outage = isinstance(error, (pinyon.Timeout, pinyon.ConnectError, pinyon.ConnectionLost, pinyon.ServerDown))
        return SomeErrors(str(error)) if outage else failure

    def hash(self, key: Key, /) -> int:
        """Return the index of the key's server in the list of servers."""
        try:
            return number_of_server(self._cache, self._specs, self._name(key))
        except pinyon.Error as error:
            raise self._failure(error) from error

    # As a mapping.

    def __getitem__(self, key: Key) -> Any:
        value = self.get(key, MISS)
        if value is MISS:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Key, value: Any) -> None:
        if not self.set(key, value):
            raise KeyError(f"failed setting {key!r}")

    def __delitem__(self, key: Key) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: Key) -> bool:
        return self.get(key, MISS) is not MISS
