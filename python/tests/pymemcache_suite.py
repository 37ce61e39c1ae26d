"""A pytest plugin that runs the tests in pymemcache's source distribution on Pinyon's shim.

In this process, ``pymemcache`` is the shim. The fake sockets that the tests put into clients become servers that
send the canned replies. Tests that are known to fail, for a documented reason, must fail.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from canned import CannedServer

from pinyon.compat import pymemcache
from pinyon.compat.pymemcache.client.base import Client, PooledClient

#: The test touches a value that it has stored for one second. That second of the server's may end at once.
STORED_FOR_A_SECOND = "test_integration.py::test_touch["
TRIES = 10
DIFFERENCES = Path(__file__).with_name("pymemcache_differences.txt")


def differences() -> dict[str, list[str]]:
    """The tests that must fail, by documented difference."""
    known: dict[str, list[str]] = {}
    for line in filter(None, DIFFERENCES.read_text().splitlines()):
        if line.startswith("# "):
            tests = known.setdefault(line[2:], [])
        else:
            tests.append(line)
    return known


def pytest_configure(config: pytest.Config) -> None:
    for mark in ("unit", "integration", "benchmark"):
        config.addinivalue_line("markers", mark)
    _alias(Path(config.rootpath))
    Client.sock = property(_server, _connect)  # type: ignore[attr-defined]
    Client._connect = property(None, lambda client, connect: connect())  # type: ignore[attr-defined]
    PooledClient.client_pool = property(None, _connect_pooled)  # type: ignore[attr-defined]


def _alias(tests: Path) -> None:
    """Makes the shim importable as pymemcache, with the original tests."""
    sys.modules["pymemcache"] = pymemcache
    for module in pkgutil.walk_packages(pymemcache.__path__, "pinyon.compat.pymemcache."):
        sys.modules[module.name.removeprefix("pinyon.compat.")] = importlib.import_module(module.name)
    package = sys.modules["pymemcache.test"] = ModuleType("pymemcache.test")
    package.__path__, package.__file__ = [str(tests)], str(tests / "__init__.py")
    pool: Any = ModuleType("pymemcache.pool")
    pool.ObjectPool = Pool
    sys.modules["pymemcache.pool"] = pymemcache.pool = pool  # type: ignore[attr-defined]


class Pool:
    """Replaces pymemcache's pool. Its only client is the test's."""

    def __init__(self, make: Any, **_settings: Any) -> None:
        self.make = make


def _server(client: Client) -> CannedServer | None:
    server: CannedServer = client.__dict__["canned"]
    return None if server.closed else server


def _connect(client: Client, server: CannedServer) -> None:
    client.__dict__["canned"] = server
    client.server = server.place
    client.close()


def _connect_pooled(client: Client, pool: Pool) -> None:
    _connect(client, pool.make().sock)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reasons = {test: reason for reason, tests in differences().items() for test in tests}
    unused = set(reasons)
    for item in items:
        module: Any = item.getparent(pytest.Module).obj  # type: ignore[union-attr]
        if hasattr(module, "MockSocket"):
            module.MockSocket = Canned
        if STORED_FOR_A_SECOND in item.nodeid and isinstance(item, pytest.Function):
            item.obj = _tried_again(item.obj)
        test = item.nodeid.partition("[")[0]
        for name in (item.nodeid, test):
            if name in reasons:
                item.add_marker(pytest.mark.xfail(reason=reasons[name], strict=True))
                unused.discard(name)
    if unused:
        raise pytest.UsageError(f"{DIFFERENCES.name} names tests that there are not: {sorted(unused)}")


def _tried_again(test: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(test)
    def tried(**fixtures: Any) -> None:
        for _ in range(TRIES - 1):
            with contextlib.suppress(AssertionError):
                return test(**fixtures)
        return test(**fixtures)

    return tried


class Canned(CannedServer):
    """A canned server of the running test."""

    servers: list[CannedServer] = []  # noqa: RUF012 (of all)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.servers.append(self)


@pytest.fixture(autouse=True)
def canned() -> Iterator[None]:
    """Ends servers with their tests."""
    yield
    while Canned.servers:
        Canned.servers.pop().close()
