"""dogpile.cache on memcached: ``make_region().configure("pinyon", arguments={"servers": "127.0.0.1:11211"})``."""

from __future__ import annotations

import contextlib
import pickle
import random
import secrets
import time
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from dogpile.cache import CacheRegion
from dogpile.cache.api import NO_VALUE, BytesBackend, CacheMutex, CantDeserializeException

from pinyon._logging import log_unreadable
from pinyon.client import Client
from pinyon.errors import OUTAGES, LockTimeout, Unsupported
from pinyon.locks import Held, Locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dogpile.cache.api import NoValueType, SerializedReturnType, ValuePayload

    from pinyon.errors import Error

#: How long a lock on memcached lasts if its holder never releases it, in seconds.
LOCK_TIMEOUT = 60
#: The longest pause between two attempts to acquire a lock on memcached: the first one, and any, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5


class Region(CacheRegion):
    """dogpile.cache's region, whose calls for many keys make no value that another caller has just made.

    ``get_or_create_multi`` reads all values before it waits for the locks of those that are missing. The region of
    dogpile.cache then creates them all, also those that the holder of a lock has stored meanwhile. This one reads them
    again first.
    """

    def get_or_create_multi(
        self,
        keys: Iterable[str],
        creator: Callable[..., Sequence[Any]],
        expiration_time: float | None = None,
        should_cache_fn: Callable[[Any], bool] | None = None,
    ) -> Sequence[Any]:
        """As in dogpile.cache. ``creator`` is called with the keys that no other caller has created, if any."""
        are_new: deque[bool] = deque()

        def create(*missing: str) -> list[Any]:
            found: list[Any] = self.get_multi(missing, expiration_time)  # type: ignore[no-untyped-call]
            wanted = [key for key, value in zip(missing, found) if value is NO_VALUE]
            made = iter(creator(*wanted) if wanted else ())
            are_new.extend(value is NO_VALUE for value in found)
            return [next(made) if value is NO_VALUE else value for value in found]

        def should_cache(value: Any) -> bool:
            # The region asks about each value in the order of the keys.
            return are_new.popleft() and (should_cache_fn is None or should_cache_fn(value))

        return super().get_or_create_multi(keys, create, expiration_time, should_cache)


def make_region(*arguments: Any, **settings: Any) -> Region:
    """Return a ``Region``. The arguments are those of ``dogpile.cache.make_region``."""
    return Region(*arguments, **settings)


class PinyonBackend(BytesBackend):
    """A backend on memcached. The region serializes the values; all threads share one client.

    Args:
        arguments: any arguments of ``pinyon.Client`` except ``serializer``, because the region has its own. ``url`` is
            another name for ``servers``. ``encode_keys`` is true by default. Also:

            - ``memcached_expire_time``: the ttl of values on memcached, in seconds. It must be longer than the
              region's ``expiration_time``, because an expired value is used until there is a new one.
            - ``distributed_lock``: whether processes also wait for each other's new values.
            - ``lock_timeout``: how long such a lock lasts if its holder never releases it, in seconds (60).
            - ``lock_url``: the Redis or Valkey server that keeps these locks. By default, memcached keeps them.

    Raises:
        UsageError: an argument makes no sense.
        TypeError: an argument is unknown.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        settings = {"encode_keys": True, **arguments}
        self._ttl = settings.pop("memcached_expire_time", 0)
        self._lock_timeout = settings.pop("lock_timeout", 0) or LOCK_TIMEOUT
        self._distributed = settings.pop("distributed_lock", False)
        lock_url = settings.pop("lock_url", None)
        servers = settings.pop("url", None)
        self.client: Client = Client(settings.pop("servers", servers), serializer=_Serialized(), **settings)
        #: Failures that do not prevent a caller from making a value.
        self._forgiven = OUTAGES if settings.get("on_failure") == "miss" else ()
        self._locks = None if lock_url is None else Locks(lock_url, namespace=settings.get("namespace") or "pinyon")

    @staticmethod
    def deserializer(data: bytes) -> ValuePayload:
        """Read a stored value. The region makes one that cannot be read anew."""
        try:
            return cast("ValuePayload", pickle.loads(data))
        except MemoryError:
            raise
        except Exception as error:
            log_unreadable(error)
            raise CantDeserializeException(str(error)) from error

    def has_lock_timeout(self) -> bool:
        """Return whether a lock can expire before its holder releases it."""
        return self._distributed and self._locks is None

    def get_mutex(self, key: str) -> CacheMutex | None:
        if self._locks is not None:
            return RedisMutex(self._locks, key, self._lock_timeout, self._forgiven)
        if self._distributed:
            return MemcachedMutex(self.client, key, self._lock_timeout, self._forgiven)
        return None

    def get_serialized(self, key: str) -> SerializedReturnType:
        return cast("SerializedReturnType", self.client.get(key, NO_VALUE))

    def get_serialized_multi(self, keys: Iterable[str]) -> Sequence[SerializedReturnType]:
        wanted = list(keys)
        found = self.client.get_many(wanted)
        return [found.get(key, NO_VALUE) for key in wanted]

    def set_serialized(self, key: str, value: bytes) -> None:
        self.client.set(key, value, self._ttl)

    def set_serialized_multi(self, mapping: Mapping[str, bytes]) -> None:
        self.client.set_many(mapping, self._ttl)

    def delete(self, key: str) -> None:
        self.client.delete(key)

    def delete_multi(self, keys: Iterable[str]) -> None:
        self.client.delete_many(keys)


class _Serialized:
    """The region's bytes, unchanged. What other clients store under the same keys is ignored."""

    def dump(self, value: bytes) -> tuple[bytes, int]:
        return value, 0

    def load(self, data: bytes, flags: int) -> bytes | NoValueType:
        return data if flags == 0 else NO_VALUE


class MemcachedMutex(CacheMutex):
    """A lock on memcached: the caller that adds its item holds it. It can be lost like any item of a cache.

    Args:
        client: the backend's client.
        key: the key of the value that is made.
        timeout: how long the lock lasts if it is not released, in seconds.
        forgiven: failures of the server that are not raised: the caller continues without the lock.
    """

    def __init__(self, client: Client, key: str, timeout: float, forgiven: tuple[type[Error], ...]) -> None:
        self._client = client.using(on_failure="raise")
        self._key = f"_lock{key}"
        self._timeout = timeout
        self._forgiven = forgiven
        #: One for each holder in this process: more than one if the lock expired and was acquired again.
        self._tokens: deque[bytes] = deque()

    def acquire(self, wait: bool = True) -> bool:
        """Acquire it. Raises ``LockTimeout`` when it cannot be acquired within twice its timeout."""
        token = secrets.token_bytes(16)
        give_up = time.monotonic() + 2 * self._timeout
        pause = FIRST_PAUSE
        while not self._add(token):
            if not wait:
                return False
            if time.monotonic() > give_up:
                raise LockTimeout(f"the lock on {self._key!r} could not be acquired within {2 * self._timeout} s")
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, LONGEST_PAUSE)
        self._tokens.append(token)
        return True

    def _add(self, token: bytes) -> bool:
        try:
            return self._client.add(self._key, token, self._timeout)
        except self._forgiven:
            return True

    def release(self) -> None:
        """Give it back, unless it has ended and somebody else holds it."""
        token = self._tokens.popleft() if self._tokens else None
        with contextlib.suppress(*self._forgiven):
            try:
                found = self._client.gets(self._key)
            except Unsupported:
                self._release_without_tokens(token)
                return
            if found is not None and found[0] == token:
                self._client.cas(self._key, b"", found[1], ttl=-1)

    def _release_without_tokens(self, token: bytes | None) -> None:
        """Do it on a server without CAS tokens. A lock that ends meanwhile, and that another acquires, goes with it."""
        if self._client.get(self._key) == token:
            self._client.delete(self._key)

    def locked(self) -> bool:
        try:
            return self._client.get(self._key) is not None
        except self._forgiven:
            return False


class RedisMutex(CacheMutex):
    """A lock on Redis or Valkey: first come, first served, and renewed while its holder lives.

    Args:
        locks: the backend's locks.
        key: the key of the value that is made.
        timeout: how long the lock outlives its holder, in seconds.
        forgiven: failures of the server that are not raised: the caller continues without the lock.
    """

    def __init__(self, locks: Locks, key: str, timeout: float, forgiven: tuple[type[Error], ...]) -> None:
        self._locks = locks
        self._key = key
        self._timeout = timeout
        self._forgiven = forgiven
        #: One for each holder in this process: more than one if the lock was lost, None if the server failed.
        self._held: deque[Held | None] = deque()

    def acquire(self, wait: bool = True) -> bool:
        """Acquire it. Raises ``LockTimeout`` when it cannot be acquired within twice its timeout."""
        try:
            held = self._take() if wait else self._locks.try_lock(self._key, ttl=self._timeout)
            if held is None:
                return False
        except LockTimeout:
            raise
        except self._forgiven:
            held = None
        self._held.append(held)
        return True

    def _take(self) -> Held:
        return self._locks.lock(self._key, ttl=self._timeout, timeout=2 * self._timeout).acquire()

    def release(self) -> None:
        """Release it. This does nothing if the lock was lost."""
        held = self._held.popleft() if self._held else None
        if held is not None:
            with contextlib.suppress(*self._forgiven):
                held.release()

    def locked(self) -> bool:
        try:
            return self._locks.is_locked(self._key)
        except self._forgiven:
            return False
