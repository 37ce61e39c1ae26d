"""aiocache on memcached: ``PinyonCache("127.0.0.1:11211")``, also for ``@cached(cache=PinyonCache)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiocache.serializers import JsonSerializer

from pinyon.aio import Client
from pinyon.errors import ServerError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pinyon.frameworks._untyped import Untyped as BaseCache
else:
    from aiocache.base import BaseCache

#: How often an increment is tried while other callers delete and create the number.
ATTEMPTS = 10


class PinyonCache(BaseCache):
    """A cache for aiocache. All tasks of all event loops of a process can share it.

    Args:
        servers: as for ``pinyon.Client``.
        serializer: a serializer of aiocache, by default JSON. It makes the bytes that are stored.
        plugins: as for all caches of aiocache.
        namespace: as for all caches of aiocache. With ``clearable=True``, it is the client's namespace, which ``clear``
            clears.
        key_builder: as for all caches of aiocache.
        timeout: the total time of an operation, in seconds.
        ttl: as for all caches of aiocache.
        settings: further settings of ``pinyon.aio.Client``. By default, ``encode_keys`` is true.

    Raises:
        InvalidServers: the server list is empty or malformed.
        UsageError: another argument makes no sense.
    """

    NAME = "pinyon"

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        *,
        serializer: Any = None,
        plugins: Any = None,
        namespace: str | None = None,
        key_builder: Any = None,
        timeout: float = 1.0,
        ttl: float | None = None,
        **settings: Any,
    ) -> None:
        serializer = serializer or JsonSerializer()
        # The client has a timeout. aiocache's own would create a task for every operation.
        self._cleared = namespace if settings.get("clearable") else None
        if settings.get("clearable"):
            settings, namespace = {**settings, "namespace": namespace}, None
        super().__init__(serializer, plugins, namespace, key_builder, timeout=None, ttl=ttl)
        self._settings = {"servers": servers, "timeout": timeout, "encode_keys": True, "serializer": "raw", **settings}
        self.client: Client = Client(**self._settings)

    async def _get(self, key: str, encoding: str | None = "utf-8", _conn: Any = None) -> Any:
        return _decoded(await self.client.get(key), encoding)

    async def _gets(self, key: str, encoding: str | None = "utf-8", _conn: Any = None) -> int | None:
        found = await self.client.gets(key)
        return None if found is None else found[1]

    async def _multi_get(self, keys: list[str], encoding: str | None = "utf-8", _conn: Any = None) -> list[Any]:
        found = await self.client.get_many(keys)
        return [_decoded(found.get(key), encoding) for key in keys]

    async def _set(
        self, key: str, value: Any, ttl: float | None = None, _cas_token: int | None = None, _conn: Any = None
    ) -> bool:
        if _cas_token is not None:
            return bool(await self.client.cas(key, _encoded(value), _cas_token, ttl or 0))
        return await self.client.set(key, _encoded(value), ttl or 0)

    async def _multi_set(self, pairs: Iterable[tuple[str, Any]], ttl: float | None = None, _conn: Any = None) -> bool:
        return not await self.client.set_many({key: _encoded(value) for key, value in pairs}, ttl or 0)

    async def _add(self, key: str, value: Any, ttl: float | None = None, _conn: Any = None) -> bool:
        if not await self.client.add(key, _encoded(value), ttl or 0):
            raise ValueError(f"Key {key} already exists, use .set to update the value")
        return True

    async def _exists(self, key: str, _conn: Any = None) -> bool:
        return await self.client.meta(key) is not None

    async def _increment(self, key: str, delta: int, _conn: Any = None) -> int:
        """Add to a number. It keeps its ttl and never falls below zero. Return -1 if no server could do it."""
        change = self.client.incr if delta >= 0 else self.client.decr
        for _ in range(ATTEMPTS):
            try:
                value = await change(key, abs(delta))
            except ServerError as error:
                raise TypeError(f"memcached cannot count with the value of {key!r}: {error}") from error
            if value is not None:
                return value
            if await self.client.add(key, b"%d" % delta, 0):
                return delta
        return -1

    async def _expire(self, key: str, ttl: float, _conn: Any = None) -> bool:
        return await self.client.touch(key, ttl)

    async def _delete(self, key: str, _conn: Any = None) -> int:
        return int(await self.client.delete(key))

    async def _clear(self, namespace: str | None = None, _conn: Any = None) -> bool:
        if self._cleared is not None and namespace in (None, "", self._cleared):
            await self.client.clear_namespace()
            return True
        if namespace:
            raise ValueError("memcached cannot clear a namespace, except the cache's own with clearable=True")
        await self.client.flush_all()
        return True

    async def _raw(
        self, command: str, *arguments: Any, encoding: str | None = "utf-8", _conn: Any = None, **settings: Any
    ) -> Any:
        return _decoded(await getattr(self.client, command)(*arguments, **settings), encoding)

    async def _redlock_release(self, key: str, value: str) -> int:
        """Release a lock of ``aiocache.lock.RedLock``, unless another caller holds it by now."""
        try:
            found = await self.client.gets(key)
        except Unsupported:
            # The server has no CAS tokens. A lock that ends meanwhile, and that another acquires, goes with this one.
            return int(await self.client.get(key) == value.encode() and await self.client.delete(key))
        if found is None or found[0] != value.encode():
            return 0
        return int(bool(await self.client.cas(key, b"", found[1], ttl=-1)))

    async def _close(self, *arguments: Any, _conn: Any = None, **settings: Any) -> None:
        """Close the connections. Later operations open new ones."""
        self.client.close()
        self.client = Client(**self._settings)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {'; '.join(self.client.describe())}>"


def _encoded(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _decoded(value: Any, encoding: str | None) -> Any:
    return value.decode(encoding) if encoding is not None and isinstance(value, bytes) else value
