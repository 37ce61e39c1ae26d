"""Django's caches on Pinyon: ``CACHES = {"default": {"BACKEND": "pinyon.frameworks.django.PinyonCache", …}}``."""

from __future__ import annotations

import copy
from functools import cached_property
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import (
    DEFAULT_TIMEOUT,
    MEMCACHE_MAX_KEY_LENGTH,
    InvalidCacheBackendError,
    InvalidCacheKey,
)
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation

import pinyon
import pinyon.aio
from pinyon.checking import check_caches
from pinyon.frameworks._django_patches import shown_to_patches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pinyon.checking import Finding
    from pinyon.frameworks._untyped import Untyped as AppConfig
    from pinyon.frameworks._untyped import Untyped as BaseMemcachedCache
else:
    from django.apps import AppConfig
    from django.core.cache.backends.memcached import BaseMemcachedCache

T = TypeVar("T")

#: Where there is no value.
MISSING: Any = object()

#: Django's engines that read a session from the cache although it could not be deleted there.
CACHED_SESSIONS = ("django.contrib.sessions.backends.cache", "django.contrib.sessions.backends.cached_db")

#: As for Django's own backends, but a value that cannot be read is a miss.
DEFAULTS: dict[str, Any] = {"serializer": "pickle", "on_unreadable": "miss"}
#: What a store raises if its value is too large, or the server has no memory for it.
REFUSED = (pinyon.ValueTooLarge, pinyon.ServerError)

#: Failures raise, and only the key's own server answers.
STRICT: dict[str, Any] = {"on_failure": "raise", "failover": False}


#: The methods that tools patch to observe a cache. Each has an asynchronous twin.
PATCHED = ("get", "set", "add", "touch", "delete", "incr", "get_many", "set_many", "delete_many", "clear")


@shown_to_patches(*PATCHED)
class PinyonCache(BaseMemcachedCache):
    """A cache on the servers of ``LOCATION``; ``OPTIONS`` are arguments of ``pinyon.Client``.

    It behaves like Django's own memcached backends, apart from what is documented here. Methods that begin with ``a``
    wait in the event loop and need no threads. Caches with the same ``LOCATION`` and ``OPTIONS`` share one client,
    also if their prefixes or versions differ. It keeps its connections between requests.
    """

    _class: type[pinyon.Client]

    def __init__(self, server: str | Iterable[str], params: dict[str, Any]) -> None:
        super().__init__(server, params, library=pinyon, value_not_found_exception=())
        self._options: dict[str, Any] = {**DEFAULTS, **(params.get("OPTIONS") or {})}
        self._locks: Any = params.get("LOCKS")
        self._is_strict = False

    @property
    def client_servers(self) -> list[str]:
        return [each.strip().removeprefix("unix:") if isinstance(each, str) else each for each in self._servers]

    @cached_property
    def _cache(self) -> pinyon.Client:
        client = _client(self._class, self.client_servers, self._options)
        return client.using(**STRICT) if self._is_strict else client

    @cached_property
    def _acache(self) -> pinyon.aio.Client:
        client = _client(pinyon.aio.Client, self.client_servers, self._options)
        return client.using(**STRICT) if self._is_strict else client

    def strict(self) -> PinyonCache:
        """Return a view of this cache that raises errors and has no failover: only the key's own server answers.

        Both share their connections.
        """
        strict = copy.copy(self)
        strict.__dict__.pop("_cache", None)
        strict.__dict__.pop("_acache", None)
        for patched in PATCHED:
            strict.__dict__.pop(patched, None)  # it would call this cache
        strict._is_strict = True
        return strict

    def get_backend_timeout(self, timeout: Any = DEFAULT_TIMEOUT) -> int:
        """Return the ttl for one of Django's timeouts: None never expires, 0 expires immediately."""
        if timeout == DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return 0 if timeout is None else int(timeout) or -1

    def validate_key(self, key: str) -> None:
        """Raise ``InvalidCacheKey`` for a key that memcached does not accept, unless the client encodes keys."""
        if self._options.get("encode_keys"):
            return
        super().validate_key(key)  # type: ignore[misc]
        if not key.isascii() and len(key.encode("utf-8", "replace")) > MEMCACHE_MAX_KEY_LENGTH:
            raise InvalidCacheKey(f"Cache key is longer than {MEMCACHE_MAX_KEY_LENGTH} bytes in UTF-8: {key!r}")

    def close(self, **settings: Any) -> None:
        """Do nothing. Django calls this after each request, and the next one needs the connections."""

    async def aget(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return await self._acache.get(self.make_and_validate_key(key, version), default)

    async def aadd(self, key: str, value: object, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        sent = self.make_and_validate_key(key, version)
        return bool(await self._store("add", sent, value, self.get_backend_timeout(timeout)))

    def set(self, key: str, value: object, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """Store the value. If this fails, the key loses its old value.

        Raises:
            pinyon.ValueTooLarge: the value exceeds the option ``max_value_size``, or the server's limit.
            pinyon.ServerError: the server has no memory for the value.
        """
        try:
            super().set(key, value, timeout, version)  # type: ignore[misc]
        except REFUSED:
            self.delete(key, version)
            raise

    async def aset(self, key: str, value: object, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        sent = self.make_and_validate_key(key, version)
        try:
            stored = await self._store("set", sent, value, self.get_backend_timeout(timeout))
        except REFUSED:
            await self._acache.delete(sent)
            raise
        if not stored:
            await self._acache.delete(sent)

    async def atouch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return await self._acache.touch(self.make_and_validate_key(key, version), self.get_backend_timeout(timeout))

    async def adelete(self, key: str, version: int | None = None) -> bool:
        return await self._acache.delete(self.make_and_validate_key(key, version))

    async def aincr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        sent = self.make_and_validate_key(key, version)
        value = await (self._acache.decr(sent, -delta) if delta < 0 else self._acache.incr(sent, delta))
        if value is None:
            raise ValueError(f"Key '{sent}' not found")
        return value

    @property
    def client(self) -> pinyon.Client:
        """The client behind this cache, for calls that Django has no name for. Its keys are those of ``make_key``."""
        return self._cache

    @property
    def aclient(self) -> pinyon.aio.Client:
        """The client behind the methods that begin with ``a``."""
        return self._acache

    def get_or_set(
        self, key: str, default: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None, **terms: Any
    ) -> Any:
        """Return the value. If there is none, or it cannot be read, store the default, or what it returns.

        If the default is a function, one caller of all processes calls it, and the others wait for its value.

        Args:
            key: the key.
            default: a value, or a function without arguments that makes it.
            timeout: seconds, or None to keep the value for ever. By default, the cache's ``TIMEOUT``.
            version: the version of the key. By default, the cache's ``VERSION``.
            terms: further arguments of ``pinyon.Client.get_or_set`` by name, such as ``stale``.

        Returns:
            The value.

        Raises:
            pinyon.LeaseTimeout: another caller was still making the value after ``wait`` seconds.
            pinyon.Unsupported: there are terms, and the server is older than memcached 1.6.10.
        """
        ttl, made = self.get_backend_timeout(timeout), _Made(default)
        if not terms and (ttl < 0 or not callable(default)):
            return self._get_or_add(key, made, timeout, version)
        try:
            return self._cache.get_or_set(self.make_and_validate_key(key, version), made, ttl, **terms)
        except pinyon.Unsupported:
            if terms or made.is_called:
                raise
        return self._get_or_add(key, made, timeout, version)

    def _get_or_add(self, key: str, make: _Made, timeout: Any, version: int | None) -> Any:
        value = self.get(key, MISSING, version)
        if value is not MISSING:
            return value
        made = make()
        added = self.add(key, made, timeout, version)
        value = self.get(key, MISSING, version)
        if value is not MISSING:
            return value
        if not added:
            self.set(key, made, timeout, version)
        return made

    async def aget_or_set(
        self, key: str, default: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None, **terms: Any
    ) -> Any:
        """As ``get_or_set``. The default may also be a coroutine function."""
        ttl, made = self.get_backend_timeout(timeout), _Made(default)
        if not terms and (ttl < 0 or not callable(default)):
            return await self._aget_or_add(key, made, timeout, version)
        sent = self.make_and_validate_key(key, version)
        try:
            return await self._acache.get_or_set(sent, made.awaited, ttl, **terms)
        except pinyon.UnsupportedType as error:
            if not isinstance(error.__cause__, SynchronousOnlyOperation):
                raise
        except pinyon.Unsupported:
            if terms or made.is_called:
                raise
            return await self._aget_or_add(key, made, timeout, version)
        return await sync_to_async(self._cache.get_or_set)(sent, lambda: made.value, ttl, **terms)

    async def _aget_or_add(self, key: str, make: _Made, timeout: Any, version: int | None) -> Any:
        value = await self.aget(key, MISSING, version)
        if value is not MISSING:
            return value
        made = await make.awaited()
        added = await self.aadd(key, made, timeout, version)
        value = await self.aget(key, MISSING, version)
        if value is not MISSING:
            return value
        if not added:
            await self.aset(key, made, timeout, version)
        return made

    def ttl(self, key: str, version: int | None = None) -> int | None:
        """Return the seconds until a key expires, as django-redis does.

        Returns:
            None if it never expires, and 0 if there is no such key.

        Raises:
            pinyon.Unsupported: the server is older than memcached 1.6.10.
        """
        return _seconds_left(self._cache.get_with_ttl(self.make_and_validate_key(key, version)))

    async def attl(self, key: str, version: int | None = None) -> int | None:
        return _seconds_left(await self._acache.get_with_ttl(self.make_and_validate_key(key, version)))

    def lock(self, name: str, version: int | None = None, **terms: Any) -> pinyon.Lock:
        """Return a lock on the Redis or Valkey server of the setting ``LOCKS``: ``with cache.lock("order:7"): …``.

        Args:
            name: its name. ``KEY_PREFIX`` and the version precede it, as for a key.
            version: the version. By default, the cache's ``VERSION``.
            terms: further arguments of ``pinyon.Locks.lock`` by name, such as ``ttl``.

        Returns:
            The lock.

        Raises:
            ImproperlyConfigured: ``LOCKS`` is missing, or is nothing that ``pinyon.Locks`` takes.
        """
        return self._locks_of(pinyon.Locks).lock(self.make_key(name, version), **terms)

    def alock(self, name: str, version: int | None = None, **terms: Any) -> pinyon.aio.Lock:
        """As ``lock``, for ``async with``."""
        return self._locks_of(pinyon.aio.Locks).lock(self.make_key(name, version), **terms)

    def _locks_of(self, kind: Callable[..., T]) -> T:
        if not self._locks:
            raise ImproperlyConfigured("a lock needs LOCKS in CACHES: the URL of a Redis or Valkey server")
        settings = self._locks if isinstance(self._locks, dict) else {"url": self._locks}
        try:
            return _shared(kind, settings)
        except TypeError as error:
            raise ImproperlyConfigured(f"LOCKS in CACHES has arguments of pinyon.Locks: {error}") from error

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        asked = self._sent(keys, version)
        return {asked[sent]: value for sent, value in self._cache.get_many(asked).items()}

    async def aget_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        asked = self._sent(keys, version)
        return {asked[sent]: value for sent, value in (await self._acache.get_many(asked)).items()}

    def set_many(
        self, data: Mapping[str, object], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        """Store the values. Return the keys that were not stored. They lost their old values.

        Raises:
            pinyon.ValueTooLarge: a value is too large. Nothing was stored, and all keys lost their old values.
        """
        asked = self._sent(data, version)
        values = {sent: data[key] for sent, key in asked.items()}
        try:
            failed = self._cache.set_many(values, self.get_backend_timeout(timeout))
        except REFUSED:
            self._cache.delete_many(asked)
            raise
        if failed:
            self._cache.delete_many(failed)
        return [asked[sent] for sent in failed]

    async def aset_many(
        self, data: Mapping[str, object], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        asked = self._sent(data, version)
        values = {sent: data[key] for sent, key in asked.items()}
        try:
            failed = await self._store("set_many", values, self.get_backend_timeout(timeout))
        except REFUSED:
            await self._acache.delete_many(asked)
            raise
        if failed:
            await self._acache.delete_many(failed)
        return [asked[sent] for sent in failed]

    def delete_many(self, keys: Iterable[str], version: int | None = None) -> None:
        self._cache.delete_many(self._sent(keys, version))

    async def adelete_many(self, keys: Iterable[str], version: int | None = None) -> None:
        await self._acache.delete_many(self._sent(keys, version))

    def clear(self) -> None:
        """Clear the ``namespace`` in ``OPTIONS`` if it is ``clearable``. Otherwise empty the servers."""
        self._cache.clear_namespace() if self._options.get("clearable") else self._cache.flush_all()

    async def aclear(self) -> None:
        await (self._acache.clear_namespace() if self._options.get("clearable") else self._acache.flush_all())

    async def _store(self, command: str, *arguments: Any) -> Any:
        """Store in the event loop, or in a thread if pickling queries the database, as for a queryset."""
        try:
            return await getattr(self._acache, command)(*arguments)
        except pinyon.UnsupportedType as error:
            if not isinstance(error.__cause__, SynchronousOnlyOperation):
                raise
        return await sync_to_async(getattr(self._cache, command))(*arguments)

    def _sent(self, keys: Iterable[str], version: int | None) -> dict[str, str]:
        """Return the given keys, by the keys that are sent."""
        return {self.make_and_validate_key(key, version): key for key in keys}


def _seconds_left(found: tuple[Any, int | None] | None) -> int | None:
    return 0 if found is None else found[1]


class _Made:
    """Makes the value of ``get_or_set``, and keeps it."""

    def __init__(self, default: Any) -> None:
        self._default = default
        self.is_called = False
        self.value: Any = None

    def __call__(self) -> Any:
        self.is_called = True
        self.value = self._default() if callable(self._default) else self._default
        return self.value

    async def awaited(self) -> Any:
        made = self()
        if isinstance(made, CoroutineType):
            self.value = await made
        return self.value


#: The clients of this process, each with the arguments it was made with. The settings bound their number.
_CLIENTS: list[tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], Any]] = []


def _client(kind: Callable[..., T], servers: list[str], options: dict[str, Any]) -> T:
    try:
        return _shared(kind, options, servers)
    except TypeError as error:
        raise InvalidCacheBackendError(
            f"OPTIONS of a PinyonCache are arguments of pinyon.Client: {error}; "
            "docs/django.md says what to write for those of other backends"
        ) from error


def _shared(kind: Callable[..., T], settings: dict[str, Any], *arguments: Any) -> T:
    """Return the process's client of this kind, with these arguments.

    Django creates a cache for every thread, and for every request in an event loop. Threads that call this at the same
    time may add several clients, but all of them get the first. So no lock is needed that a fork could leave held.
    """
    asked = (kind, arguments, settings)
    if not any(made_of == asked for made_of, _ in _CLIENTS):
        _CLIENTS.append((asked, kind(*arguments, **settings)))
    client: T = next(client for made_of, client in _CLIENTS if made_of == asked)
    return client


class Checks(AppConfig):
    """An app for ``INSTALLED_APPS``. With it, ``manage.py check --deploy`` checks all caches and where sessions are."""

    name = "pinyon.frameworks.django"
    label = "pinyon"


@register(Tags.caches, deploy=True)  # type: ignore[untyped-decorator]
def check_servers(**_: object) -> list[CheckMessage]:
    """Report problems with the servers of every ``PinyonCache``.

    This contacts the servers, so Django runs it only with ``--deploy``.
    """
    return [message for alias in caches for message in _messages(alias, caches[alias])]


def _messages(alias: str, cache: object) -> Iterator[CheckMessage]:
    if not isinstance(cache, PinyonCache):
        return
    try:
        findings: list[Finding] = check_caches(cache.client_servers, **cache._options)
    except (pinyon.UsageError, pinyon.UnsupportedType, TypeError) as error:
        yield Error(f"CACHES[{alias!r}]: {error}", id="pinyon.E001")
        return
    for finding in findings:
        text = f"CACHES[{alias!r}]: {finding.server}: {finding.message}"
        if finding.level == "error":
            yield Error(text, id="pinyon.E002")
        elif finding.level == "warning":
            yield Warning(text, id="pinyon.W001")


@register(Tags.caches, deploy=True)  # type: ignore[untyped-decorator]
def check_sessions(**_: object) -> list[CheckMessage]:
    """Warn of a session engine that logs visitors in again after an outage of a ``PinyonCache``."""
    engine, alias = settings.SESSION_ENGINE, settings.SESSION_CACHE_ALIAS
    if engine not in CACHED_SESSIONS or alias not in caches or not isinstance(caches[alias], PinyonCache):
        return []
    text = (
        f"SESSION_ENGINE is {engine!r}, and its cache CACHES[{alias!r}] is a PinyonCache: a session that is logged out "
        "while its cache server is down is logged in again when the server is back"
    )
    hint = 'Set SESSION_ENGINE = "pinyon.frameworks.django_sessions", which has no such sessions.'
    return [Warning(text, hint=hint, id="pinyon.W002")]
