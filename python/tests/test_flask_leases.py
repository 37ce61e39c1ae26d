"""Views and functions of Flask-Caching with leases: one caller makes a missing value."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import flask
import flask_caching
import pytest
from making import following
from servers import Memcached
from waiting import wait_until

import pinyon
from pinyon.frameworks.flask_caching import Cache

Application = Callable[..., tuple[flask.Flask, Cache]]


@pytest.fixture
def application(server: Memcached) -> Application:
    def make(**config: Any) -> tuple[flask.Flask, Cache]:
        app = flask.Flask("application")
        app.config.update(
            CACHE_TYPE="pinyon.frameworks.flask_caching.PinyonCache",
            CACHE_MEMCACHED_SERVERS=[server.address],
            CACHE_OPTIONS={"timeout": 60, "connect_timeout": 60},
        )
        app.config.update(config)
        return app, Cache(app)

    return make


class Function:
    """Counts its calls. It returns, or raises, what a list has next; the last element stays."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = [*outcomes]
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome() if callable(outcome) else outcome


Decorated = Callable[..., tuple[Callable[[], Any], Cache]]


@pytest.fixture(params=["cached", "memoize"])
def decorated(request: pytest.FixtureRequest, application: Application) -> Decorated:
    """Decorates a function in either way. Returns what calls it as in a request."""

    def decorate(function: Function, *arguments: Any, config: Any = (), **settings: Any) -> tuple[Any, Cache]:
        app, cache = application(**dict(config))

        @getattr(cache, request.param)(*arguments, **settings)
        def view() -> Any:
            return function()

        def call() -> Any:
            with app.test_request_context("/page"):
                return view()

        call.view, call.app = view, app  # type: ignore[attr-defined]
        return call, cache

    return decorate


def deleted(call: Any, cache: Cache, **settings: int) -> None:
    """Deletes the value, or makes it as old as when its timeout is over."""
    with call.app.test_request_context("/page"):
        is_memoized = hasattr(call.view, "delete_memoized")
        key = call.view.make_cache_key(call.view.uncached) if is_memoized else "view//page"
        assert cache.cache.client.delete(key, **settings)


def test_of_ten_callers_at_once_one_calls_the_function(decorated: Decorated) -> None:
    gate = threading.Event()
    function = Function("first", lambda: gate.wait(60) and {"plain": [1]})
    call, cache = decorated(function, 600)
    # Callers that give a memoized function its version at the same time have several keys.
    assert call() == "first"
    deleted(call, cache)
    with ThreadPoolExecutor(10) as callers:
        values = [callers.submit(call) for _ in range(10)]
        with call.app.app_context():  # type: ignore[attr-defined]
            client = cache.cache.client
        try:
            wait_until(lambda: following(client) == 9 or function.calls > 2)
        finally:
            gate.set()
        assert [each.result() for each in values] == [{"plain": [1]}] * 10
    assert function.calls == 2


def test_the_old_value_is_used_while_the_function_fails(decorated: Decorated) -> None:
    function = Function("old", ConnectionError("the database is down"), "new")
    call, cache = decorated(function, timedelta(seconds=600), stale=600, on_error="stale", retry_after=600)
    assert call() == "old"
    deleted(call, cache, stale=600)
    assert [call() for _ in range(3)] == ["old"] * 3
    assert function.calls == 2, "not called again within retry_after"
    deleted(call, cache, stale=600)
    assert [call() for _ in range(2)] == ["new"] * 2


def test_a_failure_without_an_old_value_is_raised_and_the_next_caller_calls(decorated: Decorated) -> None:
    function = Function(ConnectionError("the database is down"), "value")
    call, _ = decorated(function, 600, stale=600, on_error="stale")
    with pytest.raises(ConnectionError):
        call()
    assert function.calls == 1
    assert [call() for _ in range(2)] == ["value"] * 2
    assert function.calls == 2


def test_rules_of_flask_caching_stay(decorated: Decorated) -> None:
    refused = Function("refused", "accepted", "another")
    call, _ = decorated(refused, 600, response_filter=lambda value: value != "refused")
    assert [call() for _ in range(3)] == ["refused", "accepted", "accepted"]
    bypassed = Function("first", "second")
    call, _ = decorated(bypassed, 600, unless=lambda *_: True)
    assert [call() for _ in range(2)] == ["first", "second"]
    forced = Function("first", "second", "third")
    call, _ = decorated(forced, 600, forced_update=lambda *_: True)
    assert [call() for _ in range(3)] == ["first", "second", "third"]


def test_none_is_a_value_if_it_is_to_be_one(decorated: Decorated, server: Memcached) -> None:
    for cache_none, calls in ((True, 1), (False, 3)):
        server.flush()
        function = Function(None)
        call, _ = decorated(function, 600, cache_none=cache_none)
        assert [call() for _ in range(3)] == [None] * 3
        assert function.calls == calls


def test_a_caller_does_not_get_the_failure_of_another(decorated: Decorated) -> None:
    gate, begun = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        assert gate.wait(60)
        raise PermissionError

    function = Function(fail, "for the other")
    call, cache = decorated(function, 600)
    with ThreadPoolExecutor(2) as callers:
        first = callers.submit(call)
        assert begun.wait(60)
        second = callers.submit(call)
        with call.app.app_context():  # type: ignore[attr-defined]
            client = cache.cache.client
        try:
            wait_until(lambda: following(client) == 1)
        finally:
            gate.set()
        assert isinstance(first.exception(), PermissionError)
        assert second.result() == "for the other"


def test_stale_needs_a_timeout(decorated: Decorated) -> None:
    with pytest.raises(pinyon.UsageError, match="set timeout"):
        decorated(Function(1), stale=60)


@pytest.mark.parametrize("backend", ["flask_caching.backends.SimpleCache", "an old server"])
def test_other_caches_work_without_leases(decorated: Decorated, backend: str, classic_server: Any) -> None:
    old = {"CACHE_MEMCACHED_SERVERS": [classic_server.address]}
    function = Function("value", "another")
    config = old if backend == "an old server" else {"CACHE_TYPE": backend, "CACHE_OPTIONS": {}}
    call, _ = decorated(function, 600, config=config)
    assert [call() for _ in range(2)] == ["value"] * 2
    assert function.calls == 1


def test_settings_of_a_decorated_function_are_those_of_flask_caching(application: Application) -> None:
    app, cache = application()

    @cache.memoize(600, stale=60)
    def double(number: int) -> int:
        return 2 * number

    with app.app_context():
        assert double(2) == 4
        cache.delete_memoized(double, 2)
        key = double.make_cache_key(double.uncached, 2)
        assert cache.cache.client.meta(key) is None
        double.cache_timeout = 5000
        assert double(2) == 4
        found = cache.cache.client.meta(double.make_cache_key(double.uncached, 2))
        assert 4900 < found.ttl <= 5000


def test_a_response_may_have_its_own_timeout_and_an_error_is_a_value(application: Application) -> None:
    app, cache = application()
    calls: list[str] = []

    @app.route("/own")
    @cache.cached(600, stale=60)
    def own() -> Any:
        calls.append("own")
        return flask_caching.CachedResponse(flask.make_response("own"), timeout=5000)

    @app.route("/missing")
    @cache.cached(600, stale=60)
    def missing() -> Any:
        calls.append("missing")
        flask.abort(404)

    visitor = app.test_client()
    assert [visitor.get("/own").text for _ in range(2)] == ["own"] * 2
    assert [visitor.get("/missing").status_code for _ in range(2)] == [404] * 2
    with app.app_context():
        assert 5000 < cache.cache.client.meta("view//own").ttl <= 5060
    assert calls == ["own", "missing"]


def test_a_coroutine_function_is_a_view(application: Application) -> None:
    pytest.importorskip("asgiref")
    app, cache = application()
    calls: list[int] = []

    @app.route("/")
    @cache.cached(600)
    async def view() -> str:
        calls.append(1)
        return "awaited"

    assert [app.test_client().get("/").text for _ in range(2)] == ["awaited"] * 2
    assert calls == [1]
