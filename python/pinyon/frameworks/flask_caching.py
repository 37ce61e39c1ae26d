"""Flask-Caching on memcached: ``CACHE_TYPE = "pinyon.frameworks.flask_caching.PinyonCache"``.

``Cache`` is Flask-Caching's own class with leases: one caller of all processes calls a function that is cached. Its
decorators are Flask-Caching's. Where one of them asks for its key, the client's ``get_or_set`` is called. Its ``make``
calls the decorated function once more: this time there is no value, so the function itself is called and its result
stored. All rules of Flask-Caching, such as ``unless`` and ``response_filter``, stay its own.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import flask_caching
from flask import current_app
from flask_caching.backends.base import BaseCache

from pinyon._made import Made
from pinyon.errors import Error, LeaseTimeout, Unsupported, UsageError
from pinyon.frameworks import cachelib

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Flask

#: The ttl that get_or_set is called with. Each value has its own.
_ANY = 60


class PinyonCache(BaseCache, cachelib.PinyonCache):
    """A cache for Flask applications.

    The application's configuration has the servers (``CACHE_MEMCACHED_SERVERS``), the namespace (``CACHE_KEY_PREFIX``),
    the login (``CACHE_MEMCACHED_USERNAME`` and ``CACHE_MEMCACHED_PASSWORD``), and any other arguments of
    ``pinyon.Client`` (``CACHE_OPTIONS``).
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        cachelib.PinyonCache.__init__(self, *arguments, **settings)

    @classmethod
    def factory(cls, app: Flask, config: dict[str, Any], args: list[Any], kwargs: dict[str, Any]) -> PinyonCache:
        """Make a cache from an application's configuration. Flask-Caching calls this."""
        settings = {
            "servers": config["CACHE_MEMCACHED_SERVERS"],
            "key_prefix": config["CACHE_KEY_PREFIX"],
            "username": config.get("CACHE_MEMCACHED_USERNAME"),
            "password": config.get("CACHE_MEMCACHED_PASSWORD"),
        }
        return cls(*args, **{**settings, **kwargs})


class Cache(flask_caching.Cache):
    """Flask-Caching's ``Cache``, whose ``cached`` and ``memoize`` have a missing value made by one caller.

    With another backend than Pinyon's, or a server older than memcached 1.6.10, each caller makes it.
    """

    def cached(self, timeout: float | timedelta | None = None, *arguments: Any, **settings: Any) -> Any:
        """Decorate a view as Flask-Caching does.

        Args:
            timeout: how long a value is fresh, in seconds. By default ``CACHE_DEFAULT_TIMEOUT``.
            arguments: further arguments of Flask-Caching.
            settings: the same by name; and ``stale``, ``on_error``, ``retry_after``, ``jitter``, ``lease`` and
                ``wait``, as for ``pinyon.Client.get_or_set``.

        Returns:
            The decorator.

        Raises:
            UsageError: ``stale`` needs a ``timeout``.
        """
        return self._with_leases(super().cached, timeout, arguments, settings)

    def memoize(self, timeout: float | timedelta | None = None, *arguments: Any, **settings: Any) -> Any:
        """Decorate a function as Flask-Caching does. For the arguments see ``cached``."""
        return self._with_leases(super().memoize, timeout, arguments, settings)

    def get(self, *arguments: Any, **settings: Any) -> Any:
        """Return a value. In a call of a decorated function, the first key is the function's."""
        call = _CALL.get()
        if call is None or call.key is not None or not isinstance(self.cache, cachelib.PinyonCache):
            return super().get(*arguments, **settings)
        (call.key,) = arguments
        return None if call.is_making else call.read(self.cache, call.key)

    def has(self, *arguments: Any, **settings: Any) -> bool:
        """Return whether there is a value. While one is made, there is none."""
        call = _CALL.get()
        if call is not None and call.is_making and arguments == (call.key,):
            return False
        return super().has(*arguments, **settings)

    def set(self, *arguments: Any, **settings: Any) -> bool | None:
        """Store a value. The value of a call that makes it is stored with its lease."""
        call = _CALL.get()
        if call is None or not call.is_making or arguments[0] != call.key:
            return super().set(*arguments, **settings)
        call.stored = arguments[1]
        call.ttl = self.cache._normalize_timeout(settings.get("timeout"))
        call.is_stored = True
        return True

    def _with_leases(
        self,
        decorator: Callable[..., Any],
        timeout: float | timedelta | None,
        arguments: tuple[Any, ...],
        settings: dict[str, Any],
    ) -> Any:
        terms = {name: settings.pop(name) for name in _TERMS if name in settings}
        stale = terms.get("stale", 0)
        if stale:
            seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
            if not seconds:
                raise UsageError("stale is the time after timeout in which a value is still used: set timeout, too")
            # So long Flask-Caching keeps what belongs to the value, such as the version of a memoized function.
            timeout = int(seconds) + stale
        decorate = decorator(timeout, *arguments, **settings)

        def decorated(function: Callable[..., Any]) -> Any:
            cached = decorate(_once(function))

            @functools.wraps(cached)
            def leased(*arguments: Any, **keywords: Any) -> Any:
                call = _Call(lambda: cached(*arguments, **keywords), terms)
                return call.within(call.cached)

            # Flask-Caching reads and writes settings there, such as ``cache_timeout``.
            leased.__dict__ = cached.__dict__
            return leased

        return decorated


_TERMS = ("stale", "on_error", "retry_after", "jitter", "lease", "wait")


class _Call:
    """A call of a decorated function: the caller's, or the one within it that makes the value."""

    def __init__(self, cached: Callable[[], Any], terms: dict[str, Any], *, is_making: bool = False) -> None:
        self.cached = cached
        self.is_making = is_making
        self.key: str | None = None
        #: What Flask-Caching stores, if it does.
        self.is_stored = False
        self.stored: Any = None
        self.ttl: float = 0
        #: What the function returned or raised in the call within.
        self.has_begun = self.has_returned = False
        self.returned: Any = None
        self.error: Exception | None = None
        self._terms = terms

    def within(self, function: Callable[[], Any]) -> Any:
        token = _CALL.set(self)
        try:
            return function()
        finally:
            _CALL.reset(token)

    def read(self, backend: cachelib.PinyonCache, key: str) -> Any:
        """Return the value, or None if this call must call the function for itself."""
        try:
            return backend.client.get_or_set(key, self._make, _ANY, **self._terms)
        except Unsupported:
            if self.has_begun:
                raise
            return backend.get(key)
        except LeaseTimeout:
            return None
        except Exception as error:
            if self.has_begun:
                self.error = error
            elif isinstance(error, Error):
                raise
            # The function has failed for another caller, who may be somebody else's visitor.
            return None

    def _make(self) -> Any:
        self.has_begun = True
        making = _Call(self.cached, self._terms, is_making=True)
        try:
            self.returned = making.within(self.cached)
            self.has_returned = True
        except Exception:
            # Flask-Caching stores errors of HTTP, and then raises them.
            if not making.is_stored:
                raise
        if not making.is_stored:
            return Made(None, store=False)
        stale = self._terms.get("stale", 0)
        own = isinstance(making.stored, flask_caching.CachedResponse) and making.stored.timeout
        return Made(making.stored, ttl=making.ttl if own else making.ttl - stale)


_CALL: ContextVar[_Call | None] = ContextVar("_CALL", default=None)


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what Flask-Caching decorates: the function, or what it has returned or raised already in this call."""

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        call = _CALL.get()
        token = _CALL.set(None)
        try:
            if call is not None and call.error is not None:
                raise call.error
            if call is not None and call.has_returned:
                return call.returned
            plain = current_app.ensure_sync(function) if inspect.iscoroutinefunction(function) else function
            return plain(*arguments, **keywords)
        finally:
            _CALL.reset(token)

    return called
