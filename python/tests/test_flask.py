"""cachelib's cache on memcached, alone and in Flask: Flask-Caching and Flask-Session."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import flask
import flask_session
import pytest
from cachelib.base import BaseCache
from conftest import Setting
from flask.json.tag import TaggedJSONSerializer
from flask_caching import Cache
from servers import Memcached
from waiting import wait_until

import pinyon
from pinyon.frameworks.cachelib import PinyonCache

#: Values that applications store, including false ones.
VALUES = {
    "text": "spam",
    "number": 2048,
    "none of them": 0,
    "true": True,
    "false": False,
    "empty": {},
    "list": ["beans", [512]],
    "object": timedelta(seconds=1),
    "tuple": ("a", {256: "b"}),
    "bytes": b"\x00\xff",
}


@pytest.fixture(params=["", "app:"])
def cache(request: pytest.FixtureRequest, server: Memcached) -> PinyonCache:
    return PinyonCache(server.address, key_prefix=request.param, timeout=10, connect_timeout=10)


def ttl_of(cache: PinyonCache, key: str) -> int | None:
    item = cache.client.meta(key)
    assert item is not None
    return item.ttl


def test_values_keep_their_types(cache: PinyonCache) -> None:
    for key, value in VALUES.items():
        assert cache.set(key, value) is True
        assert cache.get(key) == value
        assert type(cache.get(key)) is type(value)
    assert cache.get("missing") is None


def test_many_values(cache: PinyonCache) -> None:
    assert cache.set_many(VALUES) == list(VALUES)
    assert cache.get_many(*VALUES, "missing") == [*VALUES.values(), None]
    assert cache.get_dict("text", "missing") == {"text": "spam", "missing": None}
    assert cache.delete_many("text", "number", "missing") == ["text", "number", "missing"]
    assert cache.get_many("text", "number", "list") == [None, None, VALUES["list"]]


def test_one_value(cache: PinyonCache) -> None:
    assert cache.has("key") is False
    assert cache.add("key", "first") is True
    assert cache.add("key", "second") is False
    assert cache.get("key") == "first"
    assert cache.has("key") is True
    assert cache.delete("key") is True
    assert cache.delete("key") is False
    cache.set("key", None)
    assert cache.get("key") is None
    assert cache.has("key") is True


def test_numbers_grow_and_shrink_below_zero_too(cache: PinyonCache) -> None:
    assert cache.inc("up", 5) == 5
    assert cache.inc("up") == 6
    assert cache.dec("up", 10) == -4
    assert cache.dec("down") == -1
    assert cache.get_many("up", "down") == [-4, -1]
    assert ttl_of(cache, "up") == pytest.approx(300, abs=5)


def test_no_change_of_a_number_is_lost(cache: PinyonCache) -> None:
    def count() -> None:
        for _ in range(25):
            cache.inc("count", 2)
            cache.dec("count")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("count") == 100


def test_timeouts(server: Memcached) -> None:
    cache = PinyonCache(server.address, default_timeout=500, timeout=20, connect_timeout=20)
    cache.set("default", 1)
    cache.set("own", 1, timeout=100)
    cache.set("delta", 1, timeout=timedelta(days=60))
    cache.set_many({"never": 1}, timeout=0)
    cache.add("added", 1, timeout=timedelta(0))
    ttls = [ttl_of(cache, key) for key in ("default", "own", "delta")]
    assert ttls == pytest.approx([500, 100, 60 * 86400], abs=5)
    assert [ttl_of(cache, key) for key in ("never", "added")] == [None, None]
    endless = PinyonCache(server.address, default_timeout=0)
    endless.set("endless", 1)
    assert ttl_of(endless, "endless") is None


def test_prefixes_keep_applications_apart(server: Memcached) -> None:
    one, other = (
        PinyonCache(server.address, key_prefix=prefix, timeout=20, connect_timeout=20) for prefix in ("one:", "other:")
    )
    one.set("key", 1)
    assert other.get("key") is None
    assert server.holds("one:key")
    assert other.clear() is True
    assert one.get("key") is None


def test_any_key_that_a_visitor_sends(setting: Setting) -> None:
    if setting.classic:
        pytest.skip("encoded keys are for meta commands")
    cache = PinyonCache(setting.servers, key_prefix=setting.namespace, timeout=10, connect_timeout=10)
    for key in ("/a page", "/seité", "x" * 1000, "line\r\nset other 0 0 1"):
        assert cache.set(key, key) is True
        assert cache.get(key) == key
        assert cache.has(key) is True
        assert cache.get_dict(key, "other") == {key: key, "other": None}
        assert cache.delete(key) is True


def test_what_is_no_key_has_no_value(server: Memcached) -> None:
    for cache, key in (
        (PinyonCache(server.address, timeout=20, connect_timeout=20), ""),
        (PinyonCache(server.address, encode_keys=False, timeout=20, connect_timeout=20), "a b"),
    ):
        cache.set("key", 1)
        assert cache.get(key) is None
        assert cache.get_dict("key", key) == {"key": 1, key: None}
        assert (cache.has(key), cache.delete(key)) == (False, False)
        with pytest.raises(pinyon.InvalidKey):
            cache.set(key, 1)


def test_what_cannot_be_read_is_no_value(server: Memcached) -> None:
    """cachelib's contract for another client's value, or a pickle when pickles are not trusted."""
    PinyonCache(server.address, timeout=20, connect_timeout=20).set_many({"pickled": (1, 2), "plain": "text"})
    careful = PinyonCache(server.address, serializer="portable", timeout=20, connect_timeout=20)
    assert careful.get("pickled") is None
    assert careful.get_many("pickled", "plain") == [None, "text"]
    with pytest.raises(pinyon.UnsupportedType):
        careful.set("key", (1, 2))


@pytest.mark.parametrize("ignore", [True, False])
def test_without_its_cache_an_application_goes_on(ignore: bool) -> None:
    cache = PinyonCache("127.0.0.1:1", on_failure="miss", ignore_delete_many_errors=ignore)
    assert cache.get_many("a", "b") == [None, None]
    assert (cache.set("a", 1), cache.add("a", 1), cache.delete("a"), cache.has("a")) == (False,) * 4
    assert cache.set_many({"a": 1}) == []
    assert (cache.inc("a"), cache.dec("a")) == (None, None)
    assert cache.clear() is False
    if ignore:
        assert cache.delete_many("a") == []
    else:
        with pytest.raises(RuntimeError, match="1 keys could be deleted"):
            cache.delete_many("a")


@pytest.mark.parametrize("method", ["get", "has", "inc", "delete_many"])
def test_failures_are_raised_unless_told_otherwise(method: str) -> None:
    with pytest.raises(pinyon.Error):
        getattr(PinyonCache("127.0.0.1:1"), method)("key")


def test_it_is_one_of_cachelibs() -> None:
    public = {name for name in vars(BaseCache) if not name.startswith("_")}
    assert public <= set(dir(PinyonCache))
    assert issubclass(PinyonCache, BaseCache)


def test_cachelibs_own_tests_of_its_caches(own_server: Memcached, tmp_path: Path, repository: Path) -> None:
    listed = (repository / "tools" / "requirements-suites.txt").read_text()
    version = re.findall(r"^cachelib==(\S+)", listed, re.MULTILINE)[0]
    for name in ("conftest", "common", "clear", "has", "delete_many_with_prefix"):
        shutil.copy(repository / ".venv" / "suites" / f"cachelib-{version}" / "tests" / f"{name}.py", tmp_path)
    shutil.copy(Path(__file__).with_name("cachelib_suite.py"), tmp_path / "test_pinyon.py")
    # It starts other caches, for other tests.
    (tmp_path / "xprocess.py").write_text("ProcessStarter = object")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_pinyon.py"],
        cwd=tmp_path,
        env={**os.environ, "MEMCACHE_SERVERS": own_server.address},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert re.search(r"^30 passed", done.stdout, re.MULTILINE), done.stdout + done.stderr


@pytest.fixture
def application(server: Memcached) -> Callable[..., tuple[flask.Flask, Cache]]:
    def make(**config: Any) -> tuple[flask.Flask, Cache]:
        app = flask.Flask("application")
        app.config.update(
            CACHE_TYPE="pinyon.frameworks.flask_caching.PinyonCache",
            CACHE_MEMCACHED_SERVERS=[server.address],
            CACHE_OPTIONS={"timeout": 10, "connect_timeout": 10},
            TESTING=True,
        )
        app.config.update(config)
        return app, Cache(app)

    return make


def test_flask_caching_keeps_views_and_results(
    application: Callable[..., tuple[flask.Flask, Cache]], server: Memcached
) -> None:
    app, cache = application(CACHE_KEY_PREFIX="site:")
    made: list[str] = []

    @app.route("/<path:page>")
    @cache.cached(timeout=50)
    def view(page: str) -> str:
        made.append(page)
        return f"page {page}"

    @cache.memoize(50)
    def double(number: int) -> int:
        made.append(str(number))
        return 2 * number

    visitor = app.test_client()
    assert [visitor.get("/first").text for _ in range(2)] == ["page first"] * 2
    assert visitor.get("/seité mit " + "x" * 500).text == visitor.get("/seité mit " + "x" * 500).text
    assert len(made) == 2
    assert server.holds("site:view//first")
    with app.app_context():
        assert [double(4), double(4), double(5)] == [8, 8, 10]
        assert made[2:] == ["4", "5"]
        cache.delete_memoized(double)
        assert double(4) == 8
        assert made[4:] == ["4"]
        cache.clear()
    visitor.get("/first")
    assert made[5:] == ["first"]


def test_flask_caching_has_the_usual_settings(
    application: Callable[..., tuple[flask.Flask, Cache]], server: Memcached
) -> None:
    app, cache = application(CACHE_DEFAULT_TIMEOUT=40, CACHE_OPTIONS={"serializer": "json", "max_value_size": 100})
    with app.app_context():
        assert cache.set("key", {"plain": [1, 2]})
        with pytest.raises(pinyon.UnsupportedType):
            cache.set("key", object())
        with pytest.raises(pinyon.ValueTooLarge):
            cache.set("key", "x" * 101)
        assert ttl_of(cache.cache, "key") == pytest.approx(40, abs=5)
        assert cache.get("key") == {"plain": [1, 2]}
    assert server.holds("flask_cache_key")


def test_flask_caching_logs_in(
    application: Callable[..., tuple[flask.Flask, Cache]], guarded_memcached: Memcached
) -> None:
    login = {"CACHE_MEMCACHED_USERNAME": "app", "CACHE_MEMCACHED_PASSWORD": "correct-horse"}
    app, cache = application(CACHE_MEMCACHED_SERVERS=guarded_memcached.address, **login)
    with app.app_context():
        assert cache.set("key", 1)
        assert cache.get("key") == 1


def test_flask_caching_serves_pages_without_its_cache(application: Callable[..., tuple[flask.Flask, Cache]]) -> None:
    app, cache = application(CACHE_MEMCACHED_SERVERS="127.0.0.1:1", CACHE_OPTIONS={"on_failure": "miss"})
    app.route("/")(cache.cached()(lambda: "page"))
    assert app.test_client().get("/").text == "page"


def test_flask_caching_takes_cachelibs_too(
    application: Callable[..., tuple[flask.Flask, Cache]], server: Memcached
) -> None:
    options = {"servers": server.address, "key_prefix": "mine:"}
    app, cache = application(CACHE_TYPE="pinyon.frameworks.cachelib.PinyonCache", CACHE_OPTIONS=options)
    with app.app_context():
        assert cache.set("key", 1)
    assert server.holds("mine:key")


class Tagged:
    """Flask's own format of sessions, which runs no code when it is read."""

    json = TaggedJSONSerializer()

    def dump(self, value: Any) -> tuple[bytes, int]:
        return self.json.dumps(value).encode(), 0

    def load(self, data: bytes, flags: int) -> Any:
        return self.json.loads(data.decode())


@pytest.mark.parametrize("serializer", ["pickle", Tagged()], ids=["pickled", "tagged JSON"])
def test_flask_session(server: Memcached, serializer: Any) -> None:
    app = flask.Flask("application")
    app.config.update(
        SESSION_TYPE="cachelib",
        SESSION_CACHELIB=PinyonCache(server.address, serializer=serializer, timeout=20, connect_timeout=20),
    )
    flask_session.Session(app)

    @app.route("/")
    def view() -> str:
        flask.session["visits"] = flask.session.get("visits", 0) + 1
        flask.flash("hello", "greeting")
        return str(flask.session["visits"])

    @app.route("/end")
    def end() -> list[Any]:
        messages = flask.get_flashed_messages(with_categories=True)
        flask.session.clear()
        return messages

    visitor, other = app.test_client(), app.test_client()
    assert [visitor.get("/").text for _ in range(3)] == ["1", "2", "3"]
    assert other.get("/").text == "1"
    assert visitor.get("/end").json == [["greeting", "hello"]] * 3
    assert visitor.get("/").text == "1"


def a_site_with_logins(*servers: Memcached, **settings: Any) -> flask.Flask:
    app = flask.Flask("application")
    app.config["SESSION_TYPE"] = "cachelib"
    app.config["SESSION_CACHELIB"] = PinyonCache([server.address for server in servers], timeout=3, **settings)
    flask_session.Session(app)

    @app.route("/log-in")
    def log_in() -> str:
        flask.session["user"] = "ada"
        return "welcome"

    @app.route("/")
    def page() -> str:
        return str(flask.session.get("user", "nobody"))

    @app.route("/log-out")
    def log_out() -> str:
        flask.session.clear()
        return "goodbye"

    return app


def status_and_text(visitor: Any, page: str) -> tuple[int, str]:
    answer = visitor.get(page)
    return answer.status_code, answer.text if answer.status_code == 200 else ""


def test_nobody_is_told_to_be_logged_out_while_the_session_cannot_be_deleted(
    own_server: Memcached, server: Memcached
) -> None:
    """With failover another server would say that there is no such session."""
    app = a_site_with_logins(own_server, server, failover=False)
    while True:
        visitor = app.test_client()
        assert visitor.get("/log-in").text == "welcome"
        cookie = visitor.get_cookie("session")
        assert cookie
        if own_server.holds(f"session:{cookie.value}"):
            break
    own_server.pause()
    assert [status_and_text(visitor, page) for page in ("/", "/log-out")] == [(500, "")] * 2
    own_server.resume()
    wait_until(lambda: status_and_text(visitor, "/") == (200, "ada"))
    assert status_and_text(visitor, "/log-out") == (200, "goodbye")
    visitor.set_cookie("session", cookie.value)
    assert status_and_text(visitor, "/") == (200, "nobody")


class _Gone:
    """A class that a deployment removes."""


def test_a_value_whose_class_is_gone_is_missing(
    server: Memcached, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = PinyonCache(server.address, timeout=20, connect_timeout=20)
    cache.set_many({"one": _Gone(), "two": _Gone(), "good": 1})
    monkeypatch.delattr(f"{__name__}._Gone")
    assert cache.get("one") is None
    assert cache.get_dict("one", "good") == {"one": None, "good": 1}
    assert cache.get_many("two", "good") == [None, 1]
    with pytest.raises(pinyon.UndecodableValue):
        cache.inc("one")
    cache.set("one", 2)
    assert cache.get("one") == 2
    # Python 3.14 says it in another order than those before.
    words = ("cannot be read", "'_Gone'", f"module '{__name__}'")
    said = [line for line in caplog.messages if all(each in line for each in words)]
    assert len(said) == 1, "one line for the class"


def test_clear_empties_the_prefix_of_a_clearable_cache(server: Memcached) -> None:
    cache, other = (
        PinyonCache(server.address, key_prefix=prefix, timeout=10, clearable=clearable)
        for prefix, clearable in (("site:", True), ("other:", False))
    )
    cache.set("key", 1)
    other.set("key", 2)
    assert cache.clear() is True
    assert cache.get("key") is None
    assert other.get("key") == 2
