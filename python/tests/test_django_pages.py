"""Pages of Django's sites in the cache: one request makes a missing page."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import caches
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import SimpleTemplateResponse
from django.test import RequestFactory, override_settings
from django.utils.cache import get_cache_key
from django.views.decorators.cache import cache_page as djangos_cache_page
from django_caches import _clients
from making import following
from servers import Memcached
from test_examples import GUNICORN, serving, visit
from waiting import wait_until

import pinyon
from pinyon.frameworks import django_pages
from pinyon.frameworks.django_pages import cache_page

__all__ = ["_clients"]

SERVED = {
    "threads": ("gunicorn", *GUNICORN, "--workers", "2", "--threads", "40", "django_pages_site:wsgi"),
    "gevent": ("gunicorn", *GUNICORN, "--workers", "2", "--worker-class", "gevent", "django_pages_site:wsgi"),
    "asyncio": ("uvicorn", "--port", "PORT", "--log-level", "warning", "--workers", "2", "django_pages_site:asgi"),
}


@pytest.mark.parametrize("name", SERVED)
def test_of_forty_requests_at_once_one_calls_the_view(
    name: str, own_server: Memcached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGES_FOLDER", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    arrived = tmp_path / "arrived"
    with serving(*SERVED[name], caches=own_server) as address, ThreadPoolExecutor(40) as visitors:
        page = f"{address}/{'awaited' if name == 'asyncio' else 'page'}"
        pages = [visitors.submit(visit, page) for _ in range(40)]
        try:
            wait_until(lambda: arrived.exists() and len(arrived.read_text().split()) == 40)
        finally:
            (tmp_path / "gate").touch()
        assert {each.result() for each in pages} == {"the page"}
    assert (tmp_path / "made").read_text().split() == ["1"]


class Views:
    """Counts the calls of a view, which takes what it returns, or raises, from a list whose last element stays."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = [*outcomes]
        self.calls = 0

    def view(self, request: HttpRequest, *arguments: Any) -> Any:
        self.calls += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome() if callable(outcome) else HttpResponse(outcome)

    async def awaited(self, request: HttpRequest, *arguments: Any) -> Any:
        return self.view(request, *arguments)


@pytest.fixture(autouse=True, scope="module")
def _configured() -> None:
    if not settings.configured:
        settings.configure()


@pytest.fixture(autouse=True)
def site(server: Memcached) -> Iterator[None]:
    backend = {"BACKEND": "pinyon.frameworks.django.PinyonCache", "LOCATION": server.address}
    patient = {"OPTIONS": {"timeout": 60, "connect_timeout": 60}}
    local = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    with override_settings(
        CACHES={"default": {**backend, **patient}, "local": local}, USE_I18N=False, ALLOWED_HOSTS=["*"]
    ):
        yield
        caches["local"].clear()
    django_pages._UNSTORED.clear()


Ask = Callable[..., HttpResponse]


@pytest.fixture(params=["called", "awaited"])
def ask(request: pytest.FixtureRequest) -> Callable[..., Ask]:
    """Decorates views. Returns what asks for a page, by a call or awaited."""

    def decorated(views: Views, timeout: float | None = 600, **terms: Any) -> Ask:
        page: Any = cache_page(timeout, **terms)(views.view if request.param == "called" else views.awaited)

        def get(path: str = "/page", method: str = "GET", **headers: str) -> HttpResponse:
            response = page(RequestFactory().generic(method, path, **headers), "argument")
            return asyncio.run(response) if request.param == "awaited" else response

        return get

    return decorated


def is_due(path: str = "/page") -> None:
    """Makes the page as old as when its timeout is over."""
    request = RequestFactory().get(path)
    key = get_cache_key(request, "", cache=caches["default"])
    cache = caches["default"]
    assert cache.client.delete(cache.make_key(key), stale=600)


def test_a_page_is_made_once_for_each_address_and_header_that_it_varies_on(ask: Callable[..., Ask]) -> None:
    views = Views(lambda: HttpResponse(f"{views.calls}", headers={"Vary": "X-Kind"}))
    get = ask(views)
    assert [get().content for _ in range(2)] == [b"1", b"1"]
    assert [get(HTTP_X_KIND="other").content for _ in range(2)] == [b"2", b"2"]
    assert [get("/page?2").content for _ in range(2)] == [b"3", b"3"]
    assert 0 <= int(get().headers["Age"]) < 600
    assert "max-age=600" in get().headers["Cache-Control"]


def test_pages_have_the_keys_of_djangos_own_decorator(ask: Callable[..., Ask]) -> None:
    theirs, ours = Views("theirs"), Views("ours")
    djangos = djangos_cache_page(600)(theirs.view)
    get = ask(ours)
    assert djangos(RequestFactory().get("/a")).content == get("/a").content == b"theirs"
    assert get("/b").content == djangos(RequestFactory().get("/b")).content == b"ours"


def test_what_a_page_costs(ask: Callable[..., Ask], own_server: Memcached, site: None) -> None:
    """As many commands as with Django's own decorator, but for a page that is renewed, which Django has none of."""
    own = {"BACKEND": "pinyon.frameworks.django.PinyonCache", "LOCATION": own_server.address}
    with override_settings(CACHES={"default": {**own, "OPTIONS": {"timeout": 60, "connect_timeout": 60}}}):
        cache: Any = caches["default"]

        def spent(visit: Callable[[], object]) -> dict[str, int]:
            before = counted()
            visit()
            return dict(sorted((counted() - before).items()))

        def counted() -> Counter[str]:
            clients = (cache.client, cache.aclient)
            found = [client.metrics()[own_server.address].commands for client in clients]
            return sum((Counter({name: each.answered for name, each in one.items()}) for one in found), Counter())

        theirs = djangos_cache_page(600)(Views("page").view)
        djangos = [spent(lambda: theirs(RequestFactory().get("/theirs"))) for _ in range(2)]
        assert djangos == [{"get": 1, "set": 2}, {"get": 2}]
        get = ask(Views("page"), stale=600)
        assert [spent(get) for _ in range(2)] == [{"cas": 1, "lease": 1, "set": 1}, {"lease": 2}]
        is_due()
        assert spent(get) == {"cas": 1, "lease": 2, "set": 1}
        unstored = ask(Views(UNSTORED["a missing page"]))
        unstored("/missing")
        assert spent(lambda: unstored("/missing")) == {"get": 1}


UNSTORED = {
    "a private page": lambda: HttpResponse("page", headers={"Cache-Control": "private"}),
    "a missing page": lambda: HttpResponse("page", status=404),
    "a page for each": lambda: HttpResponse("page", headers={"Vary": "*"}),
    "max-age=0": lambda: HttpResponse("page", headers={"Cache-Control": "max-age=0"}),
    "an error": lambda: HttpResponse("page", status=503),
}


@pytest.mark.parametrize("page", UNSTORED.values(), ids=UNSTORED)
def test_what_may_not_be_stored_is_not(page: Any, ask: Callable[..., Ask]) -> None:
    views = Views(page)
    get = ask(views, None)
    assert [get().content for _ in range(3)] == [b"page"] * 3
    assert views.calls == 3
    assert get_cache_key(RequestFactory().get("/page"), "", cache=caches["default"]) is None, "there are no headers"


def test_what_may_not_be_stored_is_stored_once_it_may_be(ask: Callable[..., Ask]) -> None:
    views = Views(Http404(), lambda: HttpResponse(status=404), "page", "another")
    get = ask(views)
    with pytest.raises(Http404):
        get()
    assert [get().status_code, get().content, get().content] == [404, b"page", b"page"]


def test_requests_for_what_may_not_be_stored_wait_for_no_other() -> None:
    """They all are in the view at once, but for the one that finds it out."""
    together, views = threading.Barrier(8), Views(lambda: HttpResponse(status=404))
    page = cache_page(600, wait=600)(views.view)
    assert page(RequestFactory().get("/page")).status_code == 404
    views.outcomes = [lambda: (together.wait(60), HttpResponse(status=404))[1]]
    with ThreadPoolExecutor(8) as visitors:
        pages = [*visitors.map(lambda _: page(RequestFactory().get("/page")), range(8))]
    assert [each.status_code for each in pages] == [404] * 8


@pytest.mark.parametrize("known", [False, True], ids=["headers unknown", "headers known"])
@pytest.mark.parametrize("first", ["ada", "banned"])
def test_a_visitor_does_not_get_the_answer_to_another(first: str, known: bool) -> None:
    """A response that is not stored, or an error: those who waited call the view themselves."""
    begun, gate = threading.Event(), threading.Event()

    def view(request: HttpRequest) -> HttpResponse:
        begun.set()
        assert gate.wait(60)
        if request.headers["X-User"] == "banned":
            raise PermissionError
        return HttpResponse(request.headers["X-User"], headers={"Cache-Control": "private"})

    page = cache_page(600)(view)

    def get(user: str) -> Any:
        try:
            return page(RequestFactory().get("/page", HTTP_X_USER=user)).content.decode()
        except PermissionError:
            return "refused"

    cache = caches["default"]
    if known:
        djangos_cache_page(600)(Views("page").view)(RequestFactory().get("/page"))
        cache.delete(get_cache_key(RequestFactory().get("/page"), "", cache=cache))
    with ThreadPoolExecutor(4) as visitors:
        pages = [visitors.submit(get, first)]
        assert begun.wait(60)
        pages += [visitors.submit(get, user) for user in ("bob", "eve", "banned")]
        try:
            wait_until(lambda: following(cache.client) == 3)
        finally:
            gate.set()
        shown = "refused" if first == "banned" else first
        assert [each.result() for each in pages] == [shown, "bob", "eve", "refused"]


def test_the_old_page_is_shown_while_the_view_fails(ask: Callable[..., Ask]) -> None:
    views = Views("old", ConnectionError("the database is down"), lambda: HttpResponse(status=503), "new")
    get = ask(views, stale=600, on_error="stale", retry_after=600)
    assert get().content == b"old"
    for calls in (2, 3):
        is_due()
        assert [get().content for _ in range(3)] == [b"old"] * 3
        assert views.calls == calls, "not called again within retry_after"
    is_due()
    assert [get().content for _ in range(2)] == [b"new"] * 2


def test_without_an_old_page_the_failure_is_shown(ask: Callable[..., Ask]) -> None:
    views = Views(ConnectionError("the database is down"), lambda: HttpResponse(status=503), "page")
    get = ask(views, stale=600, on_error="stale")
    with pytest.raises(ConnectionError):
        get()
    assert [get().status_code, get().content] == [503, b"page"]


def test_a_page_that_comes_to_vary_is_kept_by_its_new_headers(ask: Callable[..., Ask]) -> None:
    views = Views("old", lambda: HttpResponse("new", headers={"Vary": "X-Kind"}))
    get = ask(views, stale=600)
    assert get().content == b"old"
    is_due()
    assert get().content == b"new"
    assert [get(HTTP_X_KIND="a").content, get().content] == [b"new", b"new"]
    assert views.calls == 3


def test_head_uses_the_page_of_get_and_stores_none(ask: Callable[..., Ask]) -> None:
    views = Views("page", "other")
    get = ask(views, stale=600)
    assert [get(method="HEAD").content, get().content, get(method="HEAD").content] == [b"page", b"other", b"other"]
    is_due()
    assert get(method="HEAD").content == b"other"
    views.outcomes = ["new"]
    assert get().content == b"new", "HEAD left the right to make it"
    assert get(method="POST").content == b"new"
    assert views.calls == 4


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_view_that_fails_is_called_once(method: str, ask: Callable[..., Ask]) -> None:
    views = Views(ConnectionError("the database is down"))
    with pytest.raises(ConnectionError):
        ask(views)(method=method)
    assert views.calls == 1


def test_a_request_for_no_host_of_the_site_does_not_reach_the_view(ask: Callable[..., Ask]) -> None:
    views = Views("page")
    with override_settings(ALLOWED_HOSTS=["example.org"]), pytest.raises(DisallowedHost):
        ask(views)()
    assert views.calls == 0


class Rendered(SimpleTemplateResponse):
    @property
    def rendered_content(self) -> str:
        return "rendered"


def test_template_responses_are_rendered(ask: Callable[..., Ask]) -> None:
    views = Views(lambda: Rendered("no template"))
    get = ask(views)
    assert [get().content for _ in range(2)] == [b"rendered"] * 2
    assert views.calls == 1


def test_other_caches_work_without_leases(ask: Callable[..., Ask]) -> None:
    views = Views("page")
    get = ask(views, cache="local", stale=600, on_error="stale", key_prefix="site")
    assert [get().content, get(method="HEAD").content, get().content] == [b"page"] * 3
    assert views.calls == 1


def test_an_old_server_works_without_leases(ask: Callable[..., Ask], classic_server: Any) -> None:
    old = {"BACKEND": "pinyon.frameworks.django.PinyonCache", "LOCATION": classic_server.address}
    views = Views("page")
    with override_settings(CACHES={"default": {**old, "OPTIONS": {"timeout": 60, "connect_timeout": 60}}}):
        get = ask(views)
        assert [get().content for _ in range(2)] == [b"page"] * 2
    assert views.calls == 1


def test_pages_are_made_while_the_cache_is_down(ask: Callable[..., Ask]) -> None:
    down = {"BACKEND": "pinyon.frameworks.django.PinyonCache", "LOCATION": "127.0.0.1:1"}
    views = Views("page", "another")
    with override_settings(CACHES={"default": {**down, "OPTIONS": {"on_failure": "miss"}}}):
        get = ask(views)
        assert [get().content for _ in range(2)] == [b"page", b"another"]
    with override_settings(CACHES={"default": down}):
        get = ask(views)
        with pytest.raises(pinyon.Error):
            get()
