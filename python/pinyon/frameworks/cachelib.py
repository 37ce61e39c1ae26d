"""cachelib on memcached: ``PinyonCache("127.0.0.1:11211")``, also for Flask-Session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelib.base import BaseCache

from pinyon.client import Client
from pinyon.errors import OUTAGES, InvalidKey, UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

#: How often an increment is tried while other callers change the number.
ATTEMPTS = 1000


class PinyonCache(BaseCache):
    """A cache like ``cachelib.MemcachedCache``, with one client for all threads and atomic counters.

    Args:
        servers: as for ``pinyon.Client``.
        default_timeout: the ttl of items that are stored without one, in seconds. 0 never expires.
        key_prefix: a prefix for every key, the client's ``namespace``. ``clear`` ignores it without
            ``clearable=True``.
        ignore_delete_many_errors: with ``on_failure="miss"``, whether ``delete_many`` returns fewer keys when a server
            fails. Otherwise it raises a ``RuntimeError``.
        settings: further settings of ``pinyon.Client``. By default, ``serializer`` is ``"pickle"`` and
            ``on_unreadable`` is ``"miss"``, as usual for this class, and ``encode_keys`` is true.

    Raises:
        InvalidServers: the server list is empty or malformed.
        UsageError: another argument makes no sense.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        default_timeout: int | timedelta = 300,
        key_prefix: str | None = None,
        ignore_delete_many_errors: bool = True,
        **settings: Any,
    ) -> None:
        BaseCache.__init__(self, default_timeout)
        self.ignore_delete_many_errors = ignore_delete_many_errors
        self.key_prefix = key_prefix
        self._is_clearable = bool(settings.get("clearable"))
        usual = {"serializer": "pickle", "encode_keys": True, "on_unreadable": "miss"}
        self.client: Client = Client(servers, namespace=key_prefix, **{**usual, **settings})
        self._counters = self.client.using(on_unreadable="raise")
        self._forgiven = OUTAGES if settings.get("on_failure") == "miss" else ()

    def get(self, key: str) -> Any:
        """Return the value, or None if there is none, if it cannot be read, or if the key is invalid."""
        try:
            return self.client.get(key)
        except InvalidKey:
            return None

    def get_dict(self, *keys: str) -> dict[str, Any]:
        try:
            found = self.client.get_many(keys)
        except InvalidKey:
            return {key: self.get(key) for key in keys}
        return {key: found.get(key) for key in keys}

    def get_many(self, *keys: str) -> list[Any]:
        return list(map(self.get_dict(*keys).get, keys))

    def set(self, key: str, value: Any, timeout: int | timedelta | None = None) -> bool:
        return self.client.set(key, value, self._normalize_timeout(timeout))

    def add(self, key: str, value: Any, timeout: int | timedelta | None = None) -> bool:
        return self.client.add(key, value, self._normalize_timeout(timeout))

    def set_many(self, mapping: dict[str, Any], timeout: int | timedelta | None = None) -> list[str]:
        failed = set(self.client.set_many(mapping, self._normalize_timeout(timeout)))
        return [key for key in mapping if key not in failed]

    def delete(self, key: str) -> bool:
        try:
            return self.client.delete(key)
        except InvalidKey:
            return False

    def delete_many(self, *keys: str) -> list[str]:
        """Delete many items. Return the keys that have no item now, including those that had none before."""
        try:
            self.client.using(on_failure="raise").delete_many(keys)
        except self._forgiven as error:
            if self.ignore_delete_many_errors:
                return []
            raise RuntimeError(f"not all of {len(keys)} keys could be deleted: {error}") from error
        return list(keys)

    def has(self, key: str) -> bool:
        try:
            return self.client.meta(key) is not None
        except InvalidKey:
            return False

    def clear(self) -> bool:
        """Clear the ``key_prefix`` with ``clearable``, or else empty the servers. Return whether all servers did so.

        Without ``clearable``, the items of other programs are deleted, too.
        """
        try:
            self.client.clear_namespace() if self._is_clearable else self.client.flush_all()
        except self._forgiven:
            return False
        return True

    def inc(self, key: str, delta: int = 1) -> int | None:
        """Add to a number atomically. Its ttl starts again, with the default timeout.

        Returns:
            The sum, or None if no server could store it.

        Raises:
            UnsupportedType: the stored value is not a number, or ``delta`` is not.
        """
        return self._add(key, _number(delta))

    def dec(self, key: str, delta: int = 1) -> int | None:
        """Subtract from a number, as ``inc`` adds to it; it may become negative."""
        return self._add(key, -_number(delta))

    def _add(self, key: str, delta: int) -> int | None:
        for _ in range(ATTEMPTS):
            found = self._counters.gets(key)
            if found is not None and not isinstance(found[0], (int, float)):
                kind = type(found[0]).__name__
                raise UnsupportedType(
                    f"inc and dec count numbers, and {key!r} has a value of type {kind}: set a number first"
                )
            value = delta if found is None else found[0] + delta
            if self._store(key, value, found):
                return value
        return None

    def _store(self, key: str, value: int, found: tuple[Any, int] | None) -> bool | None:
        """Store the new value, if the item has not changed since it was read."""
        if found is None:
            return self.client.add(key, value, self.default_timeout)
        return self.client.cas(key, value, found[1], self.default_timeout)


def _number(delta: int) -> int:
    if not isinstance(delta, (int, float)):
        raise UnsupportedType(f"delta must be a number, not {type(delta).__name__}")
    return delta
