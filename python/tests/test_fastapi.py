"""The applications on the page of FastAPI and Starlette, served by uvicorn."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pages import REPOSITORY, Block, blocks
from pinyon_verify.ports import free_port
from processes import serving_web
from servers import Memcached, Redis

import pinyon

PATIENT = Path(__file__).with_name("patient.py")
APPLICATIONS = [block for block in blocks(REPOSITORY / "docs" / "fastapi.md") if block.language == "python"]
#: What a test puts before a line of a page: while the file is there, the database is down. Each try leaves a line.
DOWN = """    if os.path.exists("down"):
        with open("down", "a") as file:
            file.write("tried\\n")
        raise ConnectionError("the database is down")
"""


class Site:
    """A running application."""

    def __init__(self, address: str) -> None:
        self.address = address

    def visit(self, path: str, method: str = "GET") -> tuple[int, Any]:
        """The status, and the JSON of the answer."""
        request = urllib.request.Request(f"{self.address}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            answer = error.read()
            return error.code, json.loads(answer) if error.headers["content-type"] == "application/json" else answer

    def eventually(self, path: str, expected: Any) -> None:
        give_up = time.monotonic() + 60
        while self.visit(path) != (200, expected):
            assert time.monotonic() < give_up
            time.sleep(0.02)


@contextlib.contextmanager
def serving(source: str, folder: Path, *arguments: str) -> Iterator[Site]:
    (folder / "shop.py").write_text(source)
    port = free_port()
    site = Site(f"http://127.0.0.1:{port}")
    command = [sys.executable, PATIENT, "-m", "uvicorn", "--port", str(port), "--log-level", "warning"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    visit = functools.partial(site.visit, "/nothing")
    with serving_web([*command, *arguments, "shop:app"], visit, folder=folder, environment=environment):
        yield site


def application(title: str) -> Block:
    (found,) = [block for block in APPLICATIONS if title in block.source]
    return found


@pytest.fixture
def placed(own_server: Memcached, redis: Redis) -> Callable[[str], str]:
    """The source of an application with the test's servers."""

    def place(title: str) -> str:
        source = application(title).source
        return source.replace("127.0.0.1:11211", own_server.address).replace("redis://127.0.0.1:6379/0", redis.url)

    return place


def test_a_lifespan_and_a_dependency(placed: Callable[[str], str], tmp_path: Path, own_server: Memcached) -> None:
    with serving(placed("Depends(the_cache)"), tmp_path) as site:
        with ThreadPoolExecutor(16) as visitors:
            counts = list(visitors.map(lambda _: site.visit("/visits/front"), range(50)))
        assert sorted(body["visits"] for _, body in counts) == list(range(1, 51))
        assert own_server.connections() == 1
        own_server.stop()
        assert site.visit("/visits/front") == (200, {"visits": None})


def test_cached_functions_and_background_tasks(placed: Callable[[str], str], tmp_path: Path) -> None:
    with serving(placed("as_=Product"), tmp_path) as site:
        assert site.visit("/products/7") == (200, {"id": 7, "name": "tea"})
        assert site.visit("/products/8")[0] == 404
        assert site.visit("/products/7?name=coffee", "PUT") == (200, None)
        assert site.visit("/products/7") == (200, {"id": 7, "name": "coffee"})
        assert site.visit("/products/8/import?name=milk", "POST") == (200, None)
        site.eventually("/products/8", {"id": 8, "name": "milk"})


def test_a_site_shows_old_products_while_its_database_is_down(
    placed: Callable[[str], str], tmp_path: Path, own_server: Memcached
) -> None:
    """Two workers, one attempt in ``retry_after``, and back after it."""
    line = "    return Product(id=id"
    source = f"import os\n{placed('as_=Product').replace(line, DOWN + line)}".replace(
        'on_error="stale"', 'on_error="stale", retry_after=2'
    )
    assert DOWN in source
    with serving(source, tmp_path, "--workers", "2") as site:
        expected = (200, {"id": 7, "name": "tea"})
        assert site.visit("/products/7") == expected
        (tmp_path / "down").write_text("")
        with pinyon.Client(own_server.address, namespace="shop:") as cache:
            assert cache.delete("product:7", stale=3600), "its ttl is over"
        begun = time.monotonic()
        with ThreadPoolExecutor(16) as visitors:
            visits = list(visitors.map(lambda _: site.visit("/products/7"), range(100)))
            while time.monotonic() < begun + 5:
                visits += visitors.map(lambda _: site.visit("/products/7"), range(16))
        assert {(status, str(body)) for status, body in visits} == {(200, str(expected[1]))}
        tried = (tmp_path / "down").read_text().count("tried")
        assert 1 <= tried <= (time.monotonic() - begun) / 2 + 1
        (tmp_path / "down").unlink()
        assert site.visit("/products/7") == expected


def test_locks(placed: Callable[[str], str], tmp_path: Path, redis: Redis) -> None:
    with serving(placed("import_shop"), tmp_path) as site:
        status, body = site.visit("/import/a", "POST")
        assert (status, body["token"] > 0) == (200, True)
        with pinyon.Locks(redis.url, namespace="shop", ttl=60) as locks, locks.lock("import:a"):
            assert site.visit("/import/a", "POST") == (409, {"detail": "it is being imported"})


def test_endpoints_in_threads(placed: Callable[[str], str], tmp_path: Path, own_server: Memcached) -> None:
    with serving(placed("def report(year"), tmp_path) as site:
        assert [site.visit("/reports/2026") for _ in range(2)] == [(200, {"year": 2026})] * 2
        assert own_server.holds("shop:report:2026")


def test_starlette(placed: Callable[[str], str], tmp_path: Path, own_server: Memcached) -> None:
    with serving(placed("Starlette("), tmp_path) as site:
        assert [site.visit("/front/en") for _ in range(2)] == [(200, {"language": "en"})] * 2
        with pinyon.Client(own_server.address, namespace="shop:") as cache:
            give_up = time.monotonic() + 60
            while cache.get("visits") != 2:
                assert time.monotonic() < give_up
                time.sleep(0.02)


def test_every_application_of_the_page_is_served_here() -> None:
    tests = Path(__file__).read_text()
    titles = ("Depends(the_cache)", "as_=Product", "import_shop", "def report(year", "Starlette(")
    assert [application(title) for title in titles] == APPLICATIONS
    assert all(f'placed("{title}")' in tests for title in titles)
