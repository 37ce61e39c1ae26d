"""Celery: results on memcached, ``result_backend = "pinyon+memcached://host:port"``, and tasks that are unique."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from celery.canvas import maybe_signature
from celery.exceptions import BackendStoreError, ChordError
from kombu.utils.encoding import bytes_to_str

from pinyon.client import Client
from pinyon.errors import OUTAGES
from pinyon.frameworks._celery_unique import unique

if TYPE_CHECKING:
    from collections.abc import Mapping

    from celery import Celery

    from pinyon.frameworks._untyped import Untyped as KeyValueStoreBackend
else:
    from celery.backends.base import KeyValueStoreBackend

__all__ = ["PinyonBackend", "unique"]

SCHEME = "pinyon+memcached"


class PinyonBackend(KeyValueStoreBackend):
    """A result backend on memcached, in the format of Celery's own memcached backend.

    All threads and greenlets of a process share one client, also in forked workers. Results must not get lost silently.
    So failures are raised, and no other server takes over from one that is down. To change this, set
    ``cache_backend_options``, which accepts any arguments of ``pinyon.Client``.

    Args:
        app: the application.
        url: ``memcached://[user:password@]host[:port][;host…]`` or ``memcached:///unix/path``. Without hosts, it
            uses the default servers of ``pinyon.Client``.
        expires: the ttl of results, in seconds. By default, the application's ``result_expires``.

    Raises:
        InvalidServers: the URL is malformed.
        UsageError: another argument makes no sense.
    """

    key_t: Any = staticmethod(bytes_to_str)
    supports_autoexpire = True
    supports_native_join = True
    supports_result_compression = True
    implements_incr = True

    def __init__(self, app: Celery, expires: float | None = None, url: str | None = None, **settings: Any) -> None:
        super().__init__(app, expires_type=int, expires=expires, url=url, **settings)
        self.thread_safe = True
        login, self._servers = _place(url)
        options = {"failover": False, "serializer": "raw", **login, **app.conf.cache_backend_options}
        self.client: Client = Client(self._servers, **options)

    def get(self, key: str) -> bytes | None:
        value: bytes | None = self.client.get(key)
        return value

    def mget(self, keys: list[str]) -> dict[str, bytes]:
        return self.client.get_many(keys)

    def set(self, key: str, value: str | bytes) -> None:
        self._store(key, value.encode() if isinstance(value, str) else value, self.expires)

    def delete(self, key: str) -> bool:
        return self.client.delete(key)

    def incr(self, key: str) -> int:
        """Count one more finished task of a chord. Raises ``ChordError`` if the count is gone."""
        count = self.client.incr(key)
        if count is None:
            raise ChordError(f"the count of {key!r} is gone: it has expired, or memcached has evicted it")
        return count

    def on_chord_part_return(self, request: Any, state: str, result: Any, **settings: Any) -> None:
        """Call the body of a chord whose tasks are all done. If the count is gone, fail the chord for its waiters."""
        try:
            super().on_chord_part_return(request, state, result, **settings)  # type: ignore[misc]
        except ChordError as error:
            self.chord_error_from_stack(maybe_signature(request.chord, app=self.app), error)

    def expire(self, key: str, value: float | None) -> bool:
        return self.client.touch(key, value or 0)

    def exception_safe_to_retry(self, exc: Exception) -> bool:
        """Return whether ``result_backend_always_retry`` retries: if a server failed, not if it refused the command."""
        return isinstance(exc, OUTAGES)

    def _apply_chord_incr(self, header_result_args: Any, body: Any, **settings: Any) -> Any:
        expires = getattr(self, "chord_expires", self.expires)  # a setting of its own since Celery 5.7
        self._store(self.get_key_for_chord(header_result_args[0]), b"0", expires)
        return super()._apply_chord_incr(header_result_args, body, **settings)  # type: ignore[misc]

    def _store(self, key: str, value: bytes, ttl: float | None) -> None:
        if not self.client.set(key, value, ttl or 0):
            raise BackendStoreError(f"{key!r} could not be stored: no server accepted it")

    def as_uri(self, include_password: bool = False) -> str:
        """Return the URL, without the password by default."""
        if include_password and self.url:
            return f"pinyon+{self.url}"
        return f"{SCHEME}://{(self._servers or '').replace(',', ';')}/"

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return super().__reduce__(  # type: ignore[call-arg]
            args, {**(kwargs or {}), "url": self.url, "expires": self.expires}
        )


def _place(url: str | None) -> tuple[dict[str, str], str | None]:
    """Return a URL's login and servers."""
    login, _, servers = (url or "").partition("://")[2].rpartition("@")
    user, _, password = login.partition(":")
    settings = {"username": unquote(user), "password": unquote(password)} if login else {}
    return settings, servers.rstrip("/").replace(";", ",") or None
