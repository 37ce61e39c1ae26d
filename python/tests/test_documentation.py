"""Every Python example of the documentation runs."""

from __future__ import annotations

import contextlib
import doctest
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, SecureMemcached, SecureRedis
from endpoint import Endpoint
from servers import Memcached, Redis

import pinyon
from pinyon._native import DEFAULT_SETTINGS

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    REPOSITORY / "README.md",
    REPOSITORY / "python" / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
DEFAULT = "127.0.0.1:11211"
DEFAULT_REDIS = "127.0.0.1:6379"


#: Whole programs. test_examples.py runs them.
PROGRAMS = {path.read_text() for path in (REPOSITORY / "docs" / "examples").glob("*.py")}


def examples(document: Path) -> list[tuple[int, str]]:
    """The Python blocks of a document, with the line on which each begins."""
    text = document.read_text() if document.exists() else ""
    blocks = re.finditer(r"^( *)```(?:python|py|pycon)\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [(text[: block.start()].count("\n") + 1, block.group(2)) for block in blocks]


@pytest.fixture(scope="module")
def secured(certificates: Path) -> Iterator[dict[str, str]]:
    """The servers of the pages on TLS and discovery, by name, with their files in one folder."""
    authority = Authority(certificates, "documented")
    here, own, users = authority.issue("127.0.0.1"), authority.issue("client"), certificates / "users-documented"
    for name, file in {"ca.pem": authority.file, "client.pem": own.certificate, "client-key.pem": own.key}.items():
        (certificates / name).write_bytes(file.read_bytes())
    users.write_text("app:correct-horse\n")
    users.chmod(0o644)
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(Memcached())
        yield {
            "my-cache.abcdef.cfg.use1.cache.amazonaws.com:11211": stack.enter_context(Endpoint([found])).address,
            "memcached.default.svc.cluster.local:11211": f"localhost:{found.port}",
            "cache1.internal:11211": stack.enter_context(SecureMemcached(here)).address,
            "cache2.internal:11211": stack.enter_context(SecureMemcached(here, None, "-Y", str(users))).address,
            "127.0.0.1:11212": stack.enter_context(Memcached()).address,
            "locks.internal:6380": stack.enter_context(SecureRedis(here)).address,
        }


def placed(source: str, places: dict[str, str]) -> str:
    """The source with the tests' servers in place of its own."""
    for name, address in places.items():
        source = source.replace(name, address)
    return source


def run(source: str, name: str, names: dict[str, Any]) -> None:
    if source.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(source, names, name, name, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test, clear_globs=False)
        names.update(test.globs)
        assert runner.summarize(verbose=False).failed == 0
    else:
        exec(compile(source, name, "exec"), names)


DOCUMENTED = [document for document in DOCUMENTS if examples(document)]


@pytest.mark.parametrize("document", DOCUMENTED, ids=lambda document: str(document.relative_to(REPOSITORY)))
def test_the_examples_of_a_document_run_one_after_the_other(
    server: Memcached,
    redis: Redis,
    secured: dict[str, str],
    certificates: Path,
    monkeypatch: pytest.MonkeyPatch,
    document: Path,
) -> None:
    monkeypatch.setenv("MEMCACHE_SERVERS", server.address)
    monkeypatch.chdir(certificates)
    places = {DEFAULT: server.address, DEFAULT_REDIS: redis.address, **secured}
    names: dict[str, Any] = {"__name__": "example"}
    for line, source in examples(document):
        if source in PROGRAMS:
            continue
        run(placed(source, places), f"{document.name}:{line}", names)


def test_the_page_on_tls_has_every_setting() -> None:
    text = (REPOSITORY / "docs" / "tls.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert documented == list(json.loads(DEFAULT_SETTINGS)["Tls"])


@pytest.mark.parametrize("page", ["gevent", "asyncio"])
def test_the_limits_of_a_page_have_their_defaults(page: str) -> None:
    """Both pages describe both clients."""
    text = (REPOSITORY / "docs" / f"{page}.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d.,]+)", text, re.MULTILINE))
    documented = {setting: float(default.replace(",", "")) for setting, default in rows.items()}
    documented["max_value_size"] *= 1024 * 1024
    settings = json.loads(DEFAULT_SETTINGS)["Client"]
    assert set(documented) >= {"timeout", "connect_timeout", "connections", "max_value_size"}
    assert documented == {setting: settings[setting] for setting in documented}


def test_the_examples_of_the_docstrings_run(server: Memcached, redis: Redis) -> None:
    assert pinyon.__doc__ is not None
    places = {DEFAULT: server.address, DEFAULT_REDIS: redis.address}
    run(placed(pinyon.__doc__[pinyon.__doc__.index(">>>") :], places), "pinyon", {})


def test_examples_are_found(tmp_path: Path) -> None:
    document = tmp_path / "example.md"
    document.write_text("# Title\n\n```python\nfirst = 1\n```\n\n```sh\nls\n```\n\n```python\nassert first == 2\n```\n")
    assert [line for line, _ in examples(document)] == [3, 11]
    names: dict[str, Any] = {}
    run(examples(document)[0][1], "first", names)
    with pytest.raises(AssertionError):
        run(examples(document)[1][1], "second", names)
