"""Django's sessions while their cache server is stopped: who was logged out stays so when it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Memcached
from waiting import wait_until

PINYON = "pinyon.frameworks.django_sessions"
DATABASE = "django.contrib.sessions.backends.db"
CACHE = "django.contrib.sessions.backends.cache"
CACHED_DATABASE = "django.contrib.sessions.backends.cached_db"

MISS = {"on_failure": "miss", "timeout": 1}
STRICT = {"on_failure": "raise", "failover": False, "timeout": 1}


class Site:
    """A process that serves a site, one visit after the other.

    Args:
        awaited: whether its views are.
    """

    def __init__(self, engine: str, server: Memcached, options: dict[str, Any], database: Path, awaited: bool) -> None:
        program = str(Path(__file__).with_name("django_visits.py"))
        command = [sys.executable, program, engine, server.address, json.dumps(options), str(database)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.prefix = "awaited_" if awaited else ""
        assert self.answer() == "ready"

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def visit(self, page: str, cookie: str | None, **data: str) -> Any:
        assert self.process.stdin is not None
        asked = {"page": self.prefix + page, "cookie": cookie, "data": data}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def log_in(self, user: str) -> str:
        return str(self.visit("log_in", None, user=user)["cookie"])

    def session(self, cookie: str) -> Any:
        """What a page sees for whom this cookie was given to, even if the browser has been told to forget it."""
        return self.visit("visit", cookie)["session"]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


Sites = Callable[..., Site]


@pytest.fixture
def site(own_server: Memcached, tmp_path: Path) -> Iterator[Sites]:
    """Starts processes of one site."""
    started: list[Site] = []

    def start(engine: str, options: dict[str, Any], awaited: bool = False) -> Site:
        started.append(Site(engine, own_server, options, tmp_path / "database", awaited))
        return started[-1]

    yield start
    for each in started:
        each.close()


class Copy:
    """The copy of a session on the cache server."""

    def __init__(self, server: Memcached, key: str) -> None:
        self.server = server
        self.key = f":1:{key}".encode()
        head, self.data = (
            server.ask(b"get %s\r\n" % self.key, b"\r\nEND\r\n").removesuffix(b"\r\nEND\r\n").split(b"\r\n", 1)
        )
        self.flags = head.split()[2]

    @classmethod
    def after_log_in(cls, pages: Site, server: Memcached, prefix: str) -> tuple[str, Copy]:
        """Logs in until there is one: on a slow machine the cache may answer too late. Returns the cookie, too."""
        cookie = ""

        def is_there() -> bool:
            nonlocal cookie
            cookie = pages.log_in("ada")
            return server.holds(f":1:{prefix}{cookie}")

        wait_until(is_there)
        return cookie, cls(server, prefix + cookie)

    def comes_back(self) -> None:
        """As if no request to delete it had reached the server: those sent to a stopped one may yet."""
        request = b"set %s %s 0 %d\r\n%s\r\n" % (self.key, self.flags, len(self.data), self.data)
        assert self.server.ask(request, b"\r\n") == b"STORED\r\n"


def visit_until_the_cache_is_asked(server: Memcached, visit: Callable[[], None]) -> None:
    """A server that was marked down is not asked at once when it goes on."""
    before = server.statistic("cmd_get")

    def is_asked() -> bool:
        visit()
        return server.statistic("cmd_get") != before

    wait_until(is_asked)


EITHER = pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])


@EITHER
def test_a_session_logged_out_while_the_cache_is_stopped_stays_logged_out(
    own_server: Memcached, site: Sites, awaited: bool
) -> None:
    one, other = site(PINYON, MISS, awaited), site(PINYON, MISS, awaited)
    cookie, copy = Copy.after_log_in(one, own_server, PINYON)
    assert other.session(cookie) == {"user": "ada"}
    own_server.pause()
    assert one.session(cookie) == {"user": "ada"}
    one.visit("log_out", cookie)
    assert one.session(cookie) == {}
    own_server.resume()
    copy.comes_back()
    wait_until(lambda: not other.session(cookie))

    def visit() -> None:
        copy.comes_back()
        assert [one.session(cookie), other.session(cookie)] == [{}, {}]

    visit_until_the_cache_is_asked(own_server, visit)
    started_later = site(PINYON, MISS, awaited)
    assert started_later.session(cookie) == {}


@EITHER
def test_visitors_do_not_notice_that_the_cache_is_stopped(own_server: Memcached, site: Sites, awaited: bool) -> None:
    pages = site(PINYON, MISS, awaited)
    cookie, copy = Copy.after_log_in(pages, own_server, PINYON)
    own_server.pause()
    pages.visit("change", cookie, cart="full")
    assert pages.session(cookie) == {"user": "ada", "cart": "full"}
    new = pages.visit("log_in", cookie, user="grace")["cookie"]
    assert pages.session(new) == {"user": "grace", "cart": "full"}
    assert pages.session(cookie) == {}
    own_server.resume()

    def visit() -> None:
        copy.comes_back()
        assert pages.session(new) == {"user": "grace", "cart": "full"}
        assert pages.session(cookie) == {}

    visit_until_the_cache_is_asked(own_server, visit)


def test_sessions_in_the_database_alone_know_nothing_of_the_cache(own_server: Memcached, site: Sites) -> None:
    pages = site(DATABASE, MISS)
    cookie = pages.log_in("ada")
    own_server.pause()
    assert pages.session(cookie) == {"user": "ada"}
    pages.visit("log_out", cookie)
    own_server.resume()
    assert pages.session(cookie) == {}


@pytest.mark.parametrize(
    ("engine", "options", "kept"),
    [(CACHE, MISS, {}), (CACHE, STRICT, {}), (CACHED_DATABASE, MISS, {"user": "ada"})],
    ids=["cache", "cache that raises", "cached_db"],
)
def test_djangos_own_engines_bring_it_back(
    own_server: Memcached, site: Sites, engine: str, options: dict[str, Any], kept: dict[str, str]
) -> None:
    """Why docs/django.md recommends none of them. One that keeps its promise may be recommended."""
    pages = site(engine, options)
    prefix = "django.contrib.sessions." + engine.rpartition(".")[2]
    cookie, copy = Copy.after_log_in(pages, own_server, prefix)
    own_server.pause()
    assert pages.session(cookie) == kept
    pages.visit("log_out", cookie)
    own_server.resume()

    def is_back() -> bool:
        copy.comes_back()
        return pages.session(cookie) == {"user": "ada"}

    wait_until(is_back)
