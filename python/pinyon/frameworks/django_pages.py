"""Pages in Django's cache: ``from pinyon.frameworks.django_pages import cache_page``.

Django's own ``cache_page`` reads with ``get`` and stores with ``set``. So every request for a page that is missing
calls the view. A backend cannot change that: it does not learn when a view ends without storing its response. This
``cache_page`` has the view called by one request of all processes. Django's middleware still decides which responses
are stored, under which keys and for how long. Pages of both have the same keys.

A page has two keys, as in Django: a list of the headers that it varies on, and the page for their values. While the
list is missing, a request holds a lease on the list; afterwards on the page.

A response that may not be stored is never shared. The process remembers its key for a while, and requests for it do
not wait for each other meanwhile.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.utils.cache import get_cache_key

import pinyon
from pinyon._made import Made
from pinyon._steps import drive, drive_awaiting
from pinyon.frameworks.django import PinyonCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from typing_extensions import Literal

    from pinyon._steps import Steps
    from pinyon.frameworks._untyped import Untyped as CacheMiddleware
else:
    from django.middleware.cache import CacheMiddleware

__all__ = ["cache_page"]

_View = TypeVar("_View", bound="Callable[..., Any]")

#: The keys whose responses were not to be stored, and until when requests for them do not wait for each other.
_UNSTORED: dict[str, float] = {}
_SECONDS, _MOST = 60.0, 10_000
#: Seconds that the list of headers outlives a page that may be used while its view fails.
_OUTAGE = 24 * 60 * 60
#: The ttl that get_or_set is called with. Each page has its own.
_ANY = 60


def cache_page(
    timeout: float | None,
    *,
    cache: str | None = None,
    key_prefix: str | None = None,
    stale: int = 0,
    on_error: Literal["raise", "stale"] = "raise",
    retry_after: int = 5,
    jitter: float = 0,
    lease: int = 10,
    wait: float | None = None,
) -> Callable[[_View], _View]:
    """Decorate a view whose pages are cached, as Django's ``cache_page`` does. One request makes a missing page.

    With a cache that is no ``PinyonCache``, or a server older than memcached 1.6.10, each request makes a missing page.

    Args:
        timeout: how long a page is fresh, in seconds. None: as its ``max-age`` says, or ``CACHE_MIDDLEWARE_SECONDS``.
        cache: the alias of the cache in ``CACHES``. By default ``"default"``.
        key_prefix: precedes the keys of pages. By default nothing.
        stale: how long after that, in whole seconds, the old page is still used while one request makes a new one.
        on_error: ``"stale"``: the old page is also used if the view raises an error or returns a status from 500 on.
        retry_after: seconds until the view is then called again.
        jitter: the share of ``timeout``, from 0 to below 1, that may be taken off at random.
        lease: seconds that one request may take to make a page before another one does.
        wait: seconds to wait for another request. After that the request calls the view itself. By default as
            ``pinyon.Client.get_or_set`` waits.

    Returns:
        The decorator.
    """
    settings: dict[str, Any] = {"page_timeout": timeout, "cache_alias": cache, "key_prefix": key_prefix}
    waiting = {"lease": lease, "wait": wait}
    making = {"stale": stale, "on_error": on_error, "retry_after": retry_after, "jitter": jitter, **waiting}
    terms = _Terms(settings, waiting, making, stale, stale + _OUTAGE if on_error == "stale" else stale)

    def decorate(view: _View) -> _View:
        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def awaited(request: HttpRequest, *arguments: Any, **keywords: Any) -> Any:
                visit = _Visit(terms, request, lambda: view(request, *arguments, **keywords), is_awaited=True)
                return await drive_awaiting(visit.serve())

            return awaited  # type: ignore[return-value]

        @functools.wraps(view)
        def called(request: HttpRequest, *arguments: Any, **keywords: Any) -> Any:
            visit = _Visit(terms, request, lambda: view(request, *arguments, **keywords), is_awaited=False)
            return drive(visit.serve())

        return called  # type: ignore[return-value]

    return decorate


class _Terms(NamedTuple):
    """The arguments of Django's middleware, of the leases on both keys, and how much longer both are kept."""

    settings: dict[str, Any]
    waiting: dict[str, Any]
    making: dict[str, Any]
    page_lasts: int
    headers_last: int


class _Stored(NamedTuple):
    """What Django stores for a response: the page, and the headers that it varies on."""

    headers_key: str
    headers: list[str]
    page_key: str
    timeout: int


class _ServerError(Exception):
    """The view returned a response with a status from 500 on."""


class _Visit:
    """A request for a page. Its steps call, or have awaited, what they yield."""

    def __init__(self, terms: _Terms, request: HttpRequest, view: Callable[[], Any], *, is_awaited: bool) -> None:
        self._terms = terms
        self._request: Any = request
        self._view = view
        self._is_awaited = is_awaited
        self._cache: Any = caches[terms.settings["cache_alias"] or DEFAULT_CACHE_ALIAS]
        self._get = self._cache.aget if is_awaited else self._cache.get
        self._set = self._cache.aset if is_awaited else self._cache.set
        self._page_lasts, self._headers_last = terms.page_lasts, terms.headers_last
        self._headers_key = ""
        #: Whether this request has called the view, and what that returned.
        self._is_made = False
        self._response: Any = None

    def serve(self) -> Steps:
        """Return the response."""
        if self._request.method not in ("GET", "HEAD"):
            self._request._cache_update_cache = False
            return (yield self._view())
        # As Django's own middleware does: it lets one around the site know.
        self._request._cache_update_cache = True
        self._headers_key = self._asked_for_headers()
        if not isinstance(self._cache, PinyonCache):
            return (yield from self._without_leases())
        try:
            return (yield from self._head() if self._request.method == "HEAD" else self._leased())
        except pinyon.Unsupported:
            if self._is_made:
                raise
            return (yield from self._without_leases())
        except _ServerError:
            if self._is_made:
                return self._response
        except Exception as error:
            # The view of another request may have failed, whose visitor is somebody else.
            if self._is_made or (isinstance(error, pinyon.Error) and not isinstance(error, pinyon.LeaseTimeout)):
                raise
        return (yield from self._alone())

    def _leased(self) -> Steps:
        if self._is_unstored(self._headers_key):
            headers = yield self._get(self._headers_key)
        else:
            headers = yield self._get_or_set(self._headers_key, self._make_headers(), self._terms.waiting)
        if self._is_made:
            return self._response
        page_key = None if headers is None else self._page_key(headers)
        if page_key is None or self._is_unstored(page_key):
            return (yield from self._alone())
        page = yield self._get_or_set(page_key, self._make_page(page_key), self._terms.making)
        if page is not None and page is not self._response:
            return self._hit(headers, page)
        return self._response if self._is_made else (yield from self._alone())

    def _make_headers(self) -> Steps:
        """Make the page while its headers are not known, and return them."""
        stored = yield from self._called()
        if stored is None:
            self._remember(self._headers_key)
            return Made(None, store=False)
        yield self._set(stored.page_key, self._response, stored.timeout + self._page_lasts)
        return Made(stored.headers, ttl=stored.timeout + self._headers_last)

    def _make_page(self, page_key: str) -> Steps:
        stored = yield from self._called()
        if stored is None:
            self._remember(page_key)
            return Made(None, store=False)
        yield self._set(stored.headers_key, stored.headers, stored.timeout + self._headers_last)
        if stored.page_key == page_key:
            return Made(self._response, ttl=stored.timeout)
        # It varies on other headers than it did.
        yield self._set(stored.page_key, self._response, stored.timeout + self._page_lasts)
        return Made(None, store=False)

    def _alone(self) -> Steps:
        """Call the view for this request only, and store what it returns if that may be stored."""
        try:
            stored = yield from self._called()
        except _ServerError:
            return self._response
        if stored is not None:
            yield self._set(stored.page_key, self._response, stored.timeout + self._page_lasts)
            yield self._set(stored.headers_key, stored.headers, stored.timeout + self._headers_last)
            for key in (stored.headers_key, stored.page_key):
                _UNSTORED.pop(self._sent(key), None)
        return self._response

    def _without_leases(self) -> Steps:
        self._page_lasts = self._headers_last = 0
        headers = yield self._get(self._headers_key)
        page_key = None if headers is None else self._page_key(headers)
        page = None if page_key is None else (yield self._get(page_key))
        if page is not None:
            return self._hit(headers, page)
        return (yield self._view()) if self._request.method == "HEAD" else (yield from self._alone())

    def _head(self) -> Steps:
        """Use the page that GET stored. A HEAD request stores none, and leaves the right to make it to others."""
        headers = yield self._get(self._headers_key)
        page_key = None if headers is None else self._page_key(headers)
        if page_key is None:
            return (yield from self._of_view())
        lease = yield (self._cache.aclient if self._is_awaited else self._cache.client).lease(self._sent(page_key))
        if lease.state is pinyon.Outcome.WON:
            yield lease.give_back()
        return self._hit(headers, lease.value) if lease.has_value else (yield from self._of_view())

    def _of_view(self) -> Steps:
        self._is_made = True
        return (yield self._view())

    def _called(self) -> Steps:
        """Call the view. Return what Django stores for its response, or None."""
        self._is_made = True
        response = self._response = yield self._view()
        if callable(render := getattr(response, "render", None)):
            response = self._response = yield sync_to_async(render)() if self._is_awaited else render()
        if response.status_code >= 500:
            raise _ServerError(f"the view returned status {response.status_code}")
        written = _Written()
        self._middleware(written).process_response(self._request, response)
        if len(written) != 2:
            return None
        (headers_key, headers, timeout), (page_key, _, _) = written
        ttl = self._cache.get_backend_timeout(timeout) if isinstance(self._cache, PinyonCache) else int(timeout)
        return _Stored(headers_key, headers, page_key, ttl) if ttl > 0 else None

    def _get_or_set(self, key: str, making: Steps, terms: dict[str, Any]) -> Any:
        if not self._is_awaited:
            return self._cache.client.get_or_set(self._sent(key), lambda: drive(making), _ANY, **terms)

        async def make() -> Any:
            return await drive_awaiting(making)

        return self._cache.aclient.get_or_set(self._sent(key), make, _ANY, **terms)

    def _sent(self, key: str) -> str:
        sent: str = self._cache.make_and_validate_key(key)
        return sent

    def _is_unstored(self, key: str) -> bool:
        return _UNSTORED.get(self._sent(key), 0) > time.monotonic()

    def _remember(self, key: str) -> None:
        if len(_UNSTORED) >= _MOST:
            _UNSTORED.clear()
        _UNSTORED[self._sent(key)] = time.monotonic() + _SECONDS

    # Django's rules

    def _middleware(self, cache: object) -> Any:
        return _Middleware(cache, **self._terms.settings)

    def _asked_for_headers(self) -> str:
        read = _Read()
        get_cache_key(self._request, self._middleware(read).key_prefix, "GET", cache=read)
        (key,) = read.asked
        return key

    def _page_key(self, headers: list[str]) -> str | None:
        read = _Read(headers)
        key: str | None = get_cache_key(self._request, self._middleware(read).key_prefix, "GET", cache=read)
        return key

    def _hit(self, headers: list[str], page: Any) -> Any:
        return self._middleware(_Read(headers, page)).process_request(self._request)


class _Middleware(CacheMiddleware):
    """Django's middleware for one request, with another cache."""

    cache: Any = None

    def __init__(self, cache: object, **settings: Any) -> None:
        super().__init__(_no_view, **settings)
        self.cache = cache


def _no_view(_: Any) -> None:
    """Django's middleware wants a view, and is not asked to call it."""


class _Read:
    """A cache that has these values, in this order."""

    def __init__(self, *values: Any) -> None:
        self._values = [*values]
        self.asked: list[str] = []

    def get(self, key: str) -> Any:
        self.asked.append(key)
        return self._values.pop(0) if self._values else None


class _Written(list[tuple[str, Any, Any]]):
    """A cache that keeps what is stored."""

    def set(self, key: str, value: Any, timeout: Any) -> None:
        self.append((key, value, timeout))
