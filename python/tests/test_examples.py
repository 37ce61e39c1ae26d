"""The programs in docs/examples work, and the pages show them unchanged."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pinyon_verify.ports import free_port
from processes import serving_web
from servers import Memcached

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "docs" / "examples").glob("*.py"))
SCRIPTS = [path for path in EXAMPLES if path.stem in ("asyncio_tasks", "gevent_workers")]
PATIENT = Path(__file__).with_name("patient.py")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_shows_the_example_as_it_is(example: Path) -> None:
    pages = [page.read_text() for page in example.parent.parent.glob("*.md")]
    shown = f"```python\n{example.read_text()}```"
    assert sum(shown in page and f"examples/{example.name}" in page for page in pages) == 1


@pytest.mark.parametrize("example", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_does_what_it_says(example: Path, server: Memcached) -> None:
    environment = {**os.environ, "MEMCACHE_SERVERS": server.address}
    done = subprocess.run(
        [sys.executable, PATIENT, example], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "1000 users in the cache\n"), done.stderr
    assert server.holds("users:999")


@contextlib.contextmanager
def serving(module: str, *arguments: str, caches: Memcached) -> Iterator[str]:
    """The address of a running web server."""
    port = free_port()
    command = [sys.executable, PATIENT, "-m", module]
    command += [argument.replace("PORT", str(port)) for argument in arguments]
    environment = {**os.environ, "MEMCACHE_SERVERS": caches.address, "PYTHONDONTWRITEBYTECODE": "1"}
    address = f"http://127.0.0.1:{port}"
    with serving_web(command, lambda: visit(f"{address}/first"), folder=EXAMPLES[0].parent, environment=environment):
        yield address


def visit(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as response:
        return response.read().decode()


def count_visits(address: str, caches: Memcached) -> None:
    """Every visit counts once, whichever worker serves it. Without the cache, pages still work."""
    with ThreadPoolExecutor(16) as visitors:
        counts = list(visitors.map(lambda _: visit(f"{address}/a%20page"), range(100)))
        assert sorted(map(int, counts)) == list(range(1, 101))
    assert visit(f"{address}/other") == "1\n"
    assert visit(f"{address}/{'x' * 500}") == "1\n"
    caches.stop()
    assert visit(f"{address}/a%20page") == "unknown\n"


#: A gevent worker that has just begun may miss the signal to end.
GUNICORN = ["--bind", "127.0.0.1:PORT", "--no-control-socket", "--log-level", "warning", "--graceful-timeout", "1"]


@pytest.mark.parametrize("when", [[], ["--preload"]], ids=["made in the worker", "made before the fork"])
def test_gunicorn_serves_the_wsgi_application(when: list[str], own_server: Memcached) -> None:
    workers = ["--worker-class", "gevent", "--workers", "2", *when, "wsgi_gunicorn:application"]
    with serving("gunicorn", *GUNICORN, *workers, caches=own_server) as address:
        count_visits(address, own_server)


def test_the_greenlets_of_a_gunicorn_worker_share_a_connection(own_server: Memcached) -> None:
    workers = ["--worker-class", "gevent", "--workers", "1", "wsgi_gunicorn:application"]
    with serving("gunicorn", *GUNICORN, *workers, caches=own_server) as address:
        own_server.pause()
        with ThreadPoolExecutor(16) as visitors:
            visits = [visitors.submit(visit, f"{address}/page") for _ in range(16)]
            time.sleep(0.2)
            own_server.resume()
        assert sorted(int(each.result()) for each in visits) == list(range(1, 17))
        assert own_server.connections() == 1


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_uvicorn_serves_the_asgi_application(loop: str, own_server: Memcached) -> None:
    arguments = ["--port", "PORT", "--loop", loop, "--lifespan", "on", "--log-level", "warning"]
    with serving("uvicorn", *arguments, "asgi_app:application", caches=own_server) as address:
        assert own_server.connections() == 1
        count_visits(address, own_server)
