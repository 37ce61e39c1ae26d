"""Commands on several keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pinyon
from pinyon.compat.pylibmc import values
from pinyon.compat.pylibmc.errors import BadKeyProvided, Error, NotFound
from pinyon.compat.pylibmc.foundation import MISS, Foundation, Key, encoded, ttl_of


class Many(Foundation):
    """A client's commands on several keys. They contact all servers at the same time."""

    def get_multi(self, keys: Collection[Key], key_prefix: Key | None = None) -> dict[Any, Any]:
        """Return the values that exist, by their keys without the prefix.

        If some servers fail, this returns the values of the others. If all servers fail, it raises an error.
        """
        len(keys)
        named = self._named(keys, key_prefix)
        names = {name: key for name, key in named if name}
        names.update((name, key) for name, key in named if name and isinstance(key, str))
        refused = self._unsendable(names)
        if refused and self._behaviors["verify_keys"]:
            raise BadKeyProvided(f"the key {refused[0]!r} has spaces or control bytes, which memcached does not take")
        for name in refused:
            del names[name]
        failed: dict[str, pinyon.Error] = {}
        try:
            found = self._cache.get_many(names, failed=failed)
        except pinyon.Error as error:
            raise self._failure(error) from error
        if len(failed) == len(self._specs):
            first = next(iter(failed.values()))
            raise self._failure(first) from first
        loaded = {names[name]: self._load(stored) for name, stored in found.items()}
        return {key: value for key, value in loaded.items() if value is not MISS}

    def set_multi(
        self,
        keys: dict[Any, Any],
        time: int = 0,
        key_prefix: Key | None = None,
        min_compress_len: int = 0,
        compress_level: int = -1,
    ) -> list[Any]:
        """Store the values by key. Return the keys that were not stored, without the prefix."""
        stored, failed = self._dumped(keys, key_prefix, min_compress_len, compress_level)
        try:
            rejected = self._cache.set_many({name: value for name, (_, value) in stored.items()}, ttl_of(time))
        except pinyon.Error as error:
            raise self._failure(error) from error
        return failed + [stored[name][0] for name in rejected]

    def add_multi(
        self,
        keys: dict[Any, Any],
        time: int = 0,
        key_prefix: Key | None = None,
        min_compress_len: int = 0,
        compress_level: int = -1,
    ) -> list[Any]:
        """Store as ``set_multi`` does, but only for keys that have no item."""
        stored, failed = self._dumped(keys, key_prefix, min_compress_len, compress_level)
        ttl = ttl_of(time)
        try:
            with self._cache.quiet() as batch:
                for name, (_, value) in stored.items():
                    batch.add(name, value, ttl)
        except pinyon.BatchError as error:
            for failure in error.failures:
                if failure.error is not None:
                    raise self._failure(failure.error) from error
            failed += [stored[encoded(failure.key)][0] for failure in error.failures]
        return failed

    def _dumped(
        self, mapping: dict[Any, Any], prefix: Key | None, least: int, level: int
    ) -> tuple[dict[bytes, tuple[Any, values.Stored]], list[Any]]:
        """Return the given key and stored bytes by the key that is sent; and the keys that are invalid."""
        if not isinstance(mapping, dict):
            raise TypeError(f"argument 1 must be dict, not {type(mapping).__name__}")
        named = self._named(mapping, prefix)
        refused = {b"", *self._refuse(name for name, _ in named)}
        dumped = {name: (key, self._dump(mapping[key], least, level)) for name, key in named if name not in refused}
        return dumped, [key for name, key in named if name in refused]

    def delete_multi(self, keys: Iterable[Key], key_prefix: Key | None = None) -> bool:
        """Delete the items. Return whether all of them existed."""
        if isinstance(keys, dict):
            raise TypeError("keys must be a sequence, not a mapping")
        names = [name for name, _ in self._named(keys, key_prefix)]
        refused = {b"", *self._refuse(names)}
        try:
            return self._cache.delete_many(name for name in names if name not in refused) == len(names)
        except pinyon.Error as error:
            raise self._failure(error) from error

    def incr_multi(self, keys: Collection[Key], key_prefix: Key | None = None, delta: int = 1) -> None:
        """Add to several numbers.

        Raises:
            NotFound: some items do not exist. The others were incremented.
            Error: keys failed. If only one did, the error has the class of its failure.
        """
        if delta < 0:
            raise ValueError("delta must be positive")
        names = [name for name, _ in self._named(keys, key_prefix)]
        if not all(names):
            raise BadKeyProvided("the key is empty")
        if self._refuse(names):
            raise BadKeyProvided("a key has spaces or control bytes, which memcached does not take")
        try:
            with self._cache.quiet() as batch:
                for name in names:
                    batch.incr(name, delta)
        except pinyon.BatchError as error:
            errors = [failure.error for failure in error.failures if failure.error is not None]
            if not errors:
                raise NotFound(f"{len(error.failures)} keys not found") from error
            kind = type(self._failure(errors[0])) if len(errors) == 1 else Error
            raise kind(f"{len(error.failures)} keys failed: {errors[0]}") from error
